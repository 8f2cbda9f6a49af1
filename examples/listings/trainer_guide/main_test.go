package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/examples/listings/internal/fakehub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func TestListing(t *testing.T) {
	testenv.RequireTorch(t)
	server := fakehub.Start(t)
	fakehub.AddCourse(t, server)
	require.NoError(t, train(t.Context()))
	assert.DirExists(t, "your-model/checkpoint-3")
	assert.DirExists(t, "your-model/checkpoint-6")
	pushed := server.Files(hubtest.Model, "me/your-model", "main")
	assert.Contains(t, string(pushed["README.md"]), "Accuracy")
	again, err := auto.SequenceClassification(t.Context(), "me/your-model", auto.Options{})
	require.NoError(t, err)
	assert.NotNil(t, again.Tokenizer)
}
