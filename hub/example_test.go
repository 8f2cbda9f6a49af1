package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// testHub returns a Hub with one model, and a client for it.
func testHub() (*hubtest.Server, *hub.Client) {
	server, err := hubtest.New()
	if err != nil {
		log.Fatal(err)
	}
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/bert", hubtest.Public)
	server.Commit(hubtest.Model, "me/bert", "main", map[string][]byte{
		"config.json": []byte(`{"hidden_size": 768}`), "model.safetensors": make([]byte, 100),
		"flax_model.msgpack": make([]byte, 100),
	})
	cache, err := os.MkdirTemp("", "hub-example-")
	if err != nil {
		log.Fatal(err)
	}
	return server, &hub.Client{Endpoint: server.URL, CacheDir: cache, Token: hub.NewSecret("hf_secret")}
}

func ExampleClient_Fetch() {
	server, client := testHub()
	defer server.Close()
	defer os.RemoveAll(client.CacheDir)

	repo, err := client.Fetch(context.Background(), "me/bert",
		&hub.FetchOptions{Allow: []string{"*.json", "*.safetensors"}})
	if err != nil {
		log.Fatal(err)
	}
	config, err := os.ReadFile(repo.Path("config.json"))
	fmt.Println(repo.Files, string(config), err)
	// Output: [config.json model.safetensors] {"hidden_size": 768} <nil>
}

func ExampleClient_File() {
	server, client := testHub()
	defer server.Close()
	defer os.RemoveAll(client.CacheDir)

	_, err := client.File(context.Background(), "me/bert", "tokenizer.json", nil)
	fmt.Println(errors.Is(err, hub.ErrFileNotFound))
	// Output: true
}

func ExampleClient_Push() {
	server, client := testHub()
	defer server.Close()
	defer os.RemoveAll(client.CacheDir)
	dir, err := os.MkdirTemp("", "model-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(dir+"/config.json", []byte("{}"), 0o666); err != nil {
		log.Fatal(err)
	}

	card := &hub.ModelCard{ModelName: "bert-mrpc", Results: hub.Values{{Name: "Accuracy", Value: 0.8578}}}
	for range 2 {
		commit, err := client.Push(context.Background(), "me/bert-mrpc", dir, hub.PushOptions{Card: card,
			Private: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(commit.RepoID, "unchanged:", commit.Unchanged)
	}
	fmt.Println(server.Log(hubtest.Model, "me/bert-mrpc", "main"))
	// Output:
	// me/bert-mrpc unchanged: false
	// me/bert-mrpc unchanged: true
	// [Upload with gotrainer initial commit]
}

func ExampleNewSecret() {
	token := hub.NewSecret("hf_abc")
	fmt.Printf("%v %+v %q\n", token, hub.Client{Token: token}.Token, token)
	// Output: *** *** ***
}

// A run uploads its model at every save, in the background, and its last checkpoint, so that it can
// be resumed elsewhere.
func ExamplePusher() {
	server, client := testHub()
	defer server.Close()
	defer os.RemoveAll(client.CacheDir)
	run, err := os.MkdirTemp("", "run-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(run)

	t, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{
		OutputDir: run, MaxSteps: 100, Progress: io.Discard,
		Pusher:       &hub.Pusher{Client: client, Repo: "me/run", Card: &hub.ModelCard{ModelName: "run"}},
		PushStrategy: trainer.PushLastCheckpoint,
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := t.Fit(context.Background(), trainertest.Samples(800), nil); err != nil {
		log.Fatal(err)
	}
	for _, message := range server.Log(hubtest.Model, "me/run", "main") {
		fmt.Println(message)
	}
	// Output:
	// Training in progress, step 100, checkpoint
	// Training in progress, step 100
	// initial commit
}
