// Package jinja renders chat templates as Python's jinja2 does in transformers'
// apply_chat_template: in an ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks,
// break and continue, {% generation %}, a tojson that does not escape HTML, raise_exception and
// strftime_now.
//
// It supports the part of Jinja that chat templates use, with Python's rules for values. Other
// features are errors that name the feature. Templates are untrusted, since they come with
// downloaded models: they can reach only their variables, and the number of steps, the depth of
// calls and the memory of a rendering are limited; see limits.go.
package jinja
