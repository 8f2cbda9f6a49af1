"""Runs Python's huggingface_hub against the Hub of package hubtest: HF_ENDPOINT, HF_TOKEN and HF_HUB_CACHE say where.

hub_interop.py download REPO            snapshot_download; prints the folder
hub_interop.py offline REPO             the same without a network, from a cache that Go made
hub_interop.py file REPO NAME           hf_hub_download; prints the path
hub_interop.py upload REPO FOLDER       create_repo, upload_folder, create_tag; prints the commit
hub_interop.py cached REPO NAME         try_to_load_from_cache; prints the path, "none" or "known to be missing"
"""

import os
import sys

os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
command, repo, *rest = sys.argv[1:]
if command == "offline":
    os.environ["HF_HUB_OFFLINE"] = "1"

import huggingface_hub as hub  # noqa: E402

if command in ("download", "offline"):
    print(hub.snapshot_download(repo))
elif command == "file":
    print(hub.hf_hub_download(repo, rest[0]))
elif command == "cached":
    found = hub.try_to_load_from_cache(repo, rest[0])
    print(found if isinstance(found, str) else "none" if found is None else "known to be missing")
elif command == "upload":
    assert hub.whoami()["name"] == "me"
    hub.create_repo(repo, private=True, exist_ok=True)
    info = hub.upload_folder(repo_id=repo, folder_path=rest[0], commit_message="from Python", delete_patterns="old/*")
    hub.create_tag(repo, tag="v1")
    assert [b.name for b in hub.list_repo_refs(repo).tags] == ["v1"]
    print(info.oid)
else:
    sys.exit("unknown command " + command)
