package chat_test

import (
	"fmt"
	"log"

	"github.com/gotrainer/gotrainer/text/chat"
)

// A conversation is rendered as the text format that a model was trained on.
func ExampleTemplate_Render() {
	t, err := chat.Parse(`{% for m in messages %}
<|{{ m.role }}|>{{ m.content }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}`)
	if err != nil {
		log.Fatal(err)
	}
	t.SpecialTokens = map[string]string{"eos_token": "</s>"}
	c := chat.Conversation{Messages: []chat.Message{chat.System("Be brief."), chat.User("How are you?")}}
	s, err := t.Render(c, chat.Options{AddGenerationPrompt: true})
	fmt.Println(s, err)

	c.Messages = append(c.Messages, chat.Assistant("Fine."))
	s, spans, err := t.RenderAssistant(c)
	fmt.Println(s[spans[0].Start:spans[0].End], err)
	// Output:
	// <|system|>Be brief.</s>
	// <|user|>How are you?</s>
	// <|assistant|> <nil>
	// Fine.</s>
	//  <nil>
}
