package chat

import (
	"errors"
	"fmt"
)

// WithImages prepares a conversation for the template of a model of images and texts, which takes
// contents of parts: [{"type": "image"}, {"type": "text", "text": "What is this?"}]. A content that
// is a string becomes a text part. If the first message of the user is such a string, the images
// stand before its text. The conversation must have as many image parts as images. It is
// prepare_multimodal_messages of TRL.
//
// Image parts only say where an image stands; the images themselves are given to the model. A part
// that names a file or an address, or is something else than a text or an image, is an error.
func WithImages(c Conversation, images int) (Conversation, error) {
	found, inserted := 0, false
	messages := make([]Message, len(c.Messages))
	for i, m := range c.Messages {
		content, _ := m.Get("content")
		if s, ok := content.(string); ok {
			var parts []any
			if m.Role() == "user" && !inserted {
				inserted = true
				for range images {
					parts = append(parts, Object{[]string{"type"}, []any{imagePart}})
				}
			}
			content = append(parts, Object{[]string{"type", "text"}, []any{"text", s}})
			m = m.With("content", content)
		}
		n, err := imageParts(content)
		if err != nil {
			return c, fmt.Errorf("chat: message %d: %w", i, err)
		}
		found += n
		messages[i] = m
	}
	if found != images {
		return c, fmt.Errorf("chat: the conversation has %d image parts, and there are %d images; want as many parts, "+
			`{"type": "image"}, or a first message of the user that is a string`, found, images)
	}
	c.Messages = messages
	return c, nil
}

const imagePart = "image"

// imageParts counts the image parts of a content.
func imageParts(content any) (n int, err error) {
	value, err := plainOf(content)
	if err != nil || value == nil {
		return 0, err
	}
	parts, ok := value.([]any)
	if !ok {
		return 0, errors.New("its content is neither a string nor a list of parts")
	}
	for i, part := range parts {
		o, _ := part.(Object)
		kind, _ := o.Get("type")
		switch kind {
		case "text":
		case imagePart:
			for _, name := range []string{"image", "url", "path", "base64"} {
				if _, has := o.Get(name); has {
					return 0, fmt.Errorf("part %d has %q; open the image (vision.Open) and give it along with the conversation, "+
						`whose part is {"type": "image"}`, i, name)
				}
			}
			n++
		default:
			return 0, fmt.Errorf(`part %d has the type %q; want "text" or "image"`, i, fmt.Sprint(kind))
		}
	}
	return n, nil
}
