package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// testHub is a Hub with one model and a client of it.
func testHub() (*hubtest.Server, *hub.Client) {
	server, err := hubtest.New()
	if err != nil {
		log.Fatal(err)
	}
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/bert", hubtest.Public)
	server.Commit(hubtest.Model, "me/bert", "main", map[string][]byte{
		"config.json": []byte(`{"hidden_size": 768}`), "model.safetensors": make([]byte, 100), "flax_model.msgpack": make([]byte, 100),
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

	repo, err := client.Fetch(context.Background(), "me/bert", &hub.FetchOptions{Allow: []string{"*.json", "*.safetensors"}})
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
		commit, err := client.Push(context.Background(), "me/bert-mrpc", dir, hub.PushOptions{Card: card, Private: true})
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

// A run hands each checkpoint over and trains on.
func ExampleNewBackground() {
	server, client := testHub()
	defer server.Close()
	defer os.RemoveAll(client.CacheDir)
	run, err := os.MkdirTemp("", "run-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(run)
	checkpoint := run + "/checkpoint-100"
	if err := errors.Join(os.Mkdir(checkpoint, 0o777), os.WriteFile(checkpoint+"/config.json", []byte("{}"), 0o666)); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	pusher := hub.NewBackground(ctx, &hub.Pusher{Client: client, Repo: "me/run", Strategy: hub.LastCheckpoint}, nil)
	defer pusher.Close()
	_ = pusher.Push(ctx, checkpoint, "Training in progress, step 100") // returns at once, never fails
	err = pusher.Wait(ctx)
	fmt.Println(len(server.Files(hubtest.Model, "me/run", "main")), err)
	// Output: 3 <nil>
}
