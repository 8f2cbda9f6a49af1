package semantics_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// A preset is a value: copy it to change a switch.
func Example() {
	rules := semantics.HuggingFace
	rules.Name = "huggingface 5.17, nan shown"
	rules.FilterNonFiniteLoss = false
	fmt.Println(semantics.HuggingFace.FilterNonFiniteLoss, rules.FilterNonFiniteLoss)
	// Output: true false
}

func TestTheZeroRulesAreTheDefault(t *testing.T) {
	r := semantics.Default
	r.Name = ""
	if r != (semantics.Rules{}) {
		t.Errorf("Default is %+v, want the zero Rules but for its name", r)
	}
}

func TestEverySwitchIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := reflect.TypeFor[semantics.Rules]()
	for i := range rules.NumField() {
		name := rules.Field(i).Name
		if row := "\n| `" + name + "` |"; name != "Name" && strings.Count(string(page), row) != 1 {
			t.Errorf("docs/semantics.md has %d rows for %s, want 1", strings.Count(string(page), row), name)
		}
	}
}
