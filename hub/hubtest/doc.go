// Package hubtest is a Hugging Face Hub for tests: a server in this process that keeps
// repositories, revisions and large files, and answers as the real one does, so that code which
// downloads and pushes can be tested without a network.
//
//	server, err := hubtest.New()
//	defer server.Close()
//	server.AddUser("me", "hf_secret")
//	server.CreateRepo(hubtest.Model, "me/bert", hubtest.Private)
//	commit := server.Commit(hubtest.Model, "me/bert", "main", map[string][]byte{"config.json": []byte("{}")})
//	client := &hub.Client{Endpoint: server.URL, Token: hub.NewSecret("hf_secret")}
//
// It checks what it is sent. It refuses an uploaded object whose SHA-256 is not its name, a commit
// that names an object which was never uploaded, a part of the wrong size, and a token without
// write permission. Large files are answered with a redirect to a second server, the content
// delivery network, which refuses a request that carries an Authorization header. The Python client
// huggingface_hub works against it in both directions; the tests of package hub run it.
//
// [Server.Inject] makes requests fail: connections that break after some bytes, statuses, delays,
// flipped bits, wrong etags. [Server.Requests] lists the requests that were made.
//
// What it lacks: the Xet protocol (clients are offered plain LFS, which the real Hub offers as
// well), pull requests, discussions, search. Commit ids are SHA-1 sums, but not the ones that git
// would give.
package hubtest
