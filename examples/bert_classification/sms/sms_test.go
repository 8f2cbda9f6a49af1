package sms_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/gotrainer/gotrainer/examples/bert_classification/sms"
)

func ExampleMessages() {
	messages, err := sms.Messages()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(messages), sms.Labels[messages[1].Label], messages[1].Text)
	// Output: 5574 ham Ok lar... Joking wif u oni...
}

// TestTheCountsOfItsREADME compares the file with the counts in the README.
func TestTheCountsOfItsREADME(t *testing.T) {
	messages, err := sms.Messages()
	if err != nil {
		t.Fatal(err)
	}
	classes, texts := [2]int{}, map[string]bool{}
	for _, m := range messages {
		classes[m.Label]++
		texts[m.Text] = true
	}
	if classes != [2]int{4827, 747} || len(messages)-len(texts) != 403 {
		t.Errorf("%d ham and spam, %d texts again; want 4827, 747, 403", classes, len(messages)-len(texts))
	}
}
