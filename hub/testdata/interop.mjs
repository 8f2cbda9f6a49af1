// Runs the npm client @huggingface/hub against the Hub of package hubtest; HF_ENDPOINT and HF_TOKEN say where. Called in a folder whose
// node_modules has the client.
//
//   interop.mjs upload REPO FILE...      createRepo, uploadFiles, listFiles; prints the commit
//   interop.mjs download REPO PATH       downloadFile; prints the SHA-256
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const hub = await import(pathToFileURL(require.resolve("@huggingface/hub")).href);
const [command, name, ...rest] = process.argv.slice(2);
const common = { repo: { type: "model", name }, accessToken: process.env.HF_TOKEN, hubUrl: process.env.HF_ENDPOINT };

if (command === "upload") {
	await hub.createRepo({ ...common, private: true });
	const files = rest.map((f) => ({ path: basename(f), content: new Blob([readFileSync(f)]) }));
	const done = await hub.uploadFiles({ ...common, files, commitTitle: "from npm", useXet: false, useWebWorkers: false });
	const listed = [];
	for await (const f of hub.listFiles({ ...common, recursive: true })) listed.push(f.path);
	for (const f of files) if (!listed.includes(f.path)) throw new Error(f.path + " is not listed");
	console.log(done.commit.oid);
} else if (command === "download") {
	const blob = await hub.downloadFile({ ...common, path: rest[0], xet: false });
	console.log(createHash("sha256").update(Buffer.from(await blob.arrayBuffer())).digest("hex"));
} else {
	throw new Error("unknown command " + command);
}
