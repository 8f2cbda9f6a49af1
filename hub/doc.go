// Package hub is a client of the Hugging Face Hub: it fetches models and datasets into the cache
// that Python's huggingface_hub uses, and pushes folders with their large files.
//
//	repo, err := hub.Fetch(ctx, "google-bert/bert-base-uncased", nil)
//	weights := repo.Path("model.safetensors")
//
//	config, err := hub.File(ctx, "me/private", "config.json", &hub.FetchOptions{Revision: "v1.0"})
//
//	commit, err := hub.Push(ctx, "me/bert-mrpc", "runs/mrpc/checkpoint-500", hub.PushOptions{Card: card})
//
// These functions take their settings from the environment: HF_HOME, HF_HUB_CACHE, HF_TOKEN,
// HF_TOKEN_PATH, HF_HUB_OFFLINE, HF_ENDPOINT and the others that Python reads. The fields of a
// [Client] override them.
//
// # What a fetch guarantees
//
// A file appears in the cache only after its content has been checked against the name that the Hub
// gives it: SHA-256 for large files, git's SHA-1 for others. An interrupted download continues
// where it stopped, in this process or the next. Broken connections and the answers 408, 429 and
// 5xx are retried with growing pauses; Retry-After is obeyed. Without a network the cached state of
// the revision is used if it is complete, and [Repo.Offline] says why. File names that would leave
// the snapshot's folder, by the rules of any operating system, are refused before anything is
// written; all writing goes through an [os.Root] of the cache.
//
// # What a push guarantees
//
// One commit holds all changes, so nobody ever sees half a model. Large objects go first and are
// named by their content: a push that was killed leaves them on the server, and the next one does
// not send them again. A push that changes nothing makes no commit. If the answer to a commit was
// lost, the client looks for the commit before it sends it again.
//
// # Tokens
//
// A token lives in a [Secret], which prints as ***. It is sent only to the endpoint, not to the
// servers that the Hub redirects to. Errors and logs show addresses without their query, which may
// hold signatures.
//
// # Testing
//
// Package hubtest is a Hub inside the test's own process.
package hub
