package specialtoken_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/specialtoken"
)

func TestTokenIsAStringOrAnObject(t *testing.T) {
	for data, want := range map[string]specialtoken.Token{
		`null`:                                  {Special: true}, // no token: it has no content
		` "<s>"`:                                {Content: "<s>", Special: true},
		`"\u005b"`:                              {Content: "[", Special: true},
		`{"content": "<mask>", "lstrip": true}`: {Content: "<mask>", LStrip: true, Special: true},
		`{"__type": "AddedToken", "content": "<x>", "special": false}`: {Content: "<x>"},
	} {
		var f struct {
			Token specialtoken.Token `json:"token"`
		}
		require.NoError(t, json.Unmarshal([]byte(`{"token":`+data+`}`), &f), data)
		assert.Equal(t, want, f.Token, data)
	}
	assert.Error(t, json.Unmarshal([]byte(`7`), new(specialtoken.Token)))
	assert.Error(t, json.Unmarshal([]byte(`["<s>"]`), new(specialtoken.Token)))
}
