// Package chat writes conversations as the texts that a model was taught to take for them: the chat
// templates of transformers, which are programs in Jinja.
//
//	t, err := chat.Load("Qwen2.5-0.5B-Instruct") // the folder of a model
//	c := chat.Conversation{Messages: []chat.Message{chat.System("Be brief."), chat.User("Hello")}}
//	s, err := t.Render(c, chat.Options{AddGenerationPrompt: true})
//
// It is apply_chat_template of transformers 5.17, byte for byte: the template is read where transformers
// reads it, rendered by the same rules, with the same variables. Package auto loads it with a model, makes
// samples of conversations and answers.
//
// # Conversations
//
// A [Message] is an object of JSON: a role, a content, and whatever else a template knows, such as
// tool_calls, name or reasoning_content. Fields keep their order, in which templates write them.
// [ReadFile] reads a conversation from each line of a file:
//
//	{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
//
// A [Preference] is a prompt, of messages or a text, with a better and a worse answer;
// [ReadPreferencesFile] reads them:
//
//	{"prompt": [{"role": "user", "content": "Hello"}], "chosen": [{"role": "assistant", "content": "Hi!"}],
//	 "rejected": [{"role": "assistant", "content": "What?"}]}
//
// # What is learned
//
// [Template.RenderAssistant] also tells which stretches of the text the assistant says. Where the
// template marks them ({% generation %}), those are what transformers' return_assistant_tokens_mask
// takes. Where it does not, the conversation is rendered up to each answer, with the generation prompt,
// and with the answer: what the second adds to the first. A template that writes what came before in
// another way once something follows, as some do with thoughts, is refused.
//
// # Safety
//
// A template comes with a model, from somebody else. It reaches nothing but the conversation and its
// variables; its steps, its depth and the memory that it takes are limited. What the engine does not know
// of Jinja is an error that names it.
package chat
