// Package jinja renders the templates of chats as Python's jinja2 does in transformers'
// apply_chat_template: an ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, break and
// continue, {% generation %}, tojson that escapes no HTML, raise_exception and strftime_now.
//
// It is the part of Jinja that templates of chats use, and Python's rules for its values. What it does
// not know it refuses by name. A template comes from a folder that somebody else made: it reaches
// nothing but its variables, and its steps, the depth of its calls and the bytes that it makes are
// limited, see limits.go.
package jinja
