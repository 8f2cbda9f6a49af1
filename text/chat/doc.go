// Package chat turns conversations into the text format that a model was trained on, with the chat
// templates of transformers, which are programs in Jinja.
//
//	t, err := chat.Load("Qwen2.5-0.5B-Instruct") // the folder of a model
//	c := chat.Conversation{Messages: []chat.Message{chat.System("Be brief."), chat.User("Hello")}}
//	s, err := t.Render(c, chat.Options{AddGenerationPrompt: true})
//
// It is apply_chat_template of transformers 5.17, byte for byte: the template is read where
// transformers reads it, rendered by the same rules, with the same variables. Package auto loads
// the template with a model, makes samples from conversations, and answers.
//
// # Conversations
//
// A [Message] is a JSON object: a role, a content, and whatever else a template knows, such as
// tool_calls, name or reasoning_content. Fields keep their order, because templates write them in
// that order. [ReadFile] reads a conversation from each line of a file:
//
//	{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
//
// # What is learned
//
// [Template.RenderAssistant] also tells which parts of the text are the assistant's. If the
// template marks them ({% generation %}), they are the ones in transformers'
// return_assistant_tokens_mask. If it does not, the conversation is rendered twice for each answer:
// up to the answer, with the generation prompt, and including it. What the second text adds to the
// first is the assistant's. A template that rewrites earlier messages once something follows, as
// some do with thoughts, is refused.
//
// # Safety
//
// A template comes with a model, from somebody else. It can reach only the conversation and its
// variables; its steps, its depth and its memory are limited. A feature of Jinja that the engine
// does not support is an error that names it.
package chat
