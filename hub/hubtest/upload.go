package hubtest

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// upload is an object being received in parts.
type upload struct {
	sha   string
	size  int64
	etags map[int]string // by part, from 1
}

// lfsObject is an object in a batch request.
type lfsObject struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

// lfsBatch responds where to upload each object: nowhere if it exists already, to one address, or
// to one address for each part.
func (s *Server) lfsBatch(c *call, r *repo) {
	var request struct {
		Operation string      `json:"operation"`
		Transfers []string    `json:"transfers"`
		Objects   []lfsObject `json:"objects"`
		HashAlgo  string      `json:"hash_algo"`
	}
	if c.Header.Get("Accept") != "application/vnd.git-lfs+json" {
		c.fail(http.StatusNotAcceptable, "", "Accept must be application/vnd.git-lfs+json")
		return
	}
	if err := json.NewDecoder(c.Body).Decode(&request); err != nil || request.Operation != "upload" ||
		!slices.Contains([]string{"", "sha256", "sha_256"}, request.HashAlgo) || len(request.Objects) > 256 {
		c.fail(http.StatusUnprocessableEntity, "", "want an upload of at most 256 objects named by sha256")
		return
	}
	if !c.mayWrite(r.id) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	transfer := "basic"
	objects := []map[string]any{}
	for _, o := range request.Objects {
		entry := map[string]any{"oid": o.OID, "size": o.Size}
		objects = append(objects, entry)
		if sum, err := hex.DecodeString(o.OID); err != nil || len(sum) != sha256.Size || o.Size <= 0 {
			entry["error"] = map[string]any{"code": 422, "message": "invalid object"}
			continue
		}
		if _, known := s.objects[o.OID]; known {
			continue // no action: it exists
		}
		if o.Size <= s.PartSize || !slices.Contains(request.Transfers, "multipart") {
			entry["actions"] = map[string]any{"upload": map[string]any{"href": s.CDNURL + "/upload/" + o.OID +
				"?X-Amz-Signature=up&size=" + strconv.FormatInt(o.Size, 10)}}
			continue
		}
		transfer = "multipart"
		s.serial++
		id := fmt.Sprintf("u%d", s.serial)
		s.uploads[id] = &upload{sha: o.OID, size: o.Size, etags: map[int]string{}}
		header := map[string]string{"chunk_size": strconv.FormatInt(s.PartSize, 10)}
		for n := int64(0); n*s.PartSize < o.Size; n++ {
			header[fmt.Sprintf("%05d", n+1)] = fmt.Sprintf("%s/part/%s/%d?X-Amz-Signature=up", s.CDNURL, id, n+1)
		}
		entry["actions"] = map[string]any{"upload": map[string]any{"href": s.URL + "/lfs-complete/" + id,
			"header": header}}
	}
	c.w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	c.reply(http.StatusOK, map[string]any{"transfer": transfer, "objects": objects})
}

// receive writes a body to a new file and returns its checksums. The caller removes the file.
func (s *Server) receive(r *http.Request) (name string, sha, md string, size int64, err error) {
	f, err := os.CreateTemp(s.dir, "receive-")
	if err != nil {
		return "", "", "", 0, err
	}
	defer f.Close()
	sum, etag := sha256.New(), md5.New()
	size, err = io.Copy(io.MultiWriter(f, sum, etag), r.Body)
	return f.Name(), hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(etag.Sum(nil)), size, err
}

// receiveObject receives a whole object, and refuses one with another checksum than promised.
func (s *Server) receiveObject(w http.ResponseWriter, r *http.Request, promised string) {
	name, sha, _, size, err := s.receive(r)
	defer os.Remove(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if sha != promised || strconv.FormatInt(size, 10) != r.URL.Query().Get("size") {
		http.Error(w, "XAmzContentChecksumMismatch", http.StatusBadRequest)
		return
	}
	if err := os.Rename(name, s.objectPath(sha)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	s.objects[sha] = size
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (s *Server) partPath(id string, number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("part-%s-%d", id, number))
}

// receivePart receives one part. All but the last must have the full size.
func (s *Server) receivePart(w http.ResponseWriter, r *http.Request, path string) {
	id, text, _ := strings.Cut(path, "/")
	number, err := strconv.Atoi(text)
	s.mu.Lock()
	u := s.uploads[id]
	s.mu.Unlock()
	if u == nil || err != nil {
		http.Error(w, "NoSuchUpload", http.StatusNotFound)
		return
	}
	name, _, etag, size, err := s.receive(r)
	defer os.Remove(name)
	want := min(s.PartSize, u.size-int64(number-1)*s.PartSize)
	if err == nil && size != want {
		http.Error(w, fmt.Sprintf("part %d has %d bytes, want %d", number, size, want), http.StatusBadRequest)
		return
	}
	if err == nil {
		err = os.Rename(name, s.partPath(id, number))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	u.etags[number] = `"` + etag + `"`
	s.mu.Unlock()
	w.Header().Set("ETag", `"`+etag+`"`)
	w.WriteHeader(http.StatusOK)
}

// completeUpload joins the parts after checking their etags, and checks the checksum of the object.
func (s *Server) completeUpload(c *call, id string) {
	var request struct {
		OID   string `json:"oid"`
		Parts []struct {
			PartNumber int    `json:"partNumber"`
			ETag       string `json:"etag"`
		} `json:"parts"`
	}
	err := json.NewDecoder(c.Body).Decode(&request)
	s.mu.Lock()
	u := s.uploads[id]
	s.mu.Unlock()
	if err != nil || u == nil || request.OID != u.sha {
		c.fail(http.StatusBadRequest, "", "no such upload")
		return
	}
	sum := sha256.New()
	out, err := os.CreateTemp(s.dir, "join-")
	if err != nil {
		c.fail(http.StatusInternalServerError, "", err.Error())
		return
	}
	defer os.Remove(out.Name())
	defer out.Close()
	size := int64(0)
	for i, p := range request.Parts {
		s.mu.Lock()
		known := u.etags[p.PartNumber]
		s.mu.Unlock()
		if p.PartNumber != i+1 || known == "" || known != p.ETag {
			c.fail(http.StatusBadRequest, "", fmt.Sprintf("InvalidPart: %d", p.PartNumber))
			return
		}
		part, err := os.Open(s.partPath(id, p.PartNumber))
		if err != nil {
			c.fail(http.StatusBadRequest, "", err.Error())
			return
		}
		n, err := io.Copy(io.MultiWriter(out, sum), part)
		part.Close()
		os.Remove(part.Name())
		if size += n; err != nil {
			c.fail(http.StatusInternalServerError, "", err.Error())
			return
		}
	}
	if sha := hex.EncodeToString(sum.Sum(nil)); sha != u.sha || size != u.size {
		c.fail(http.StatusBadRequest, "", "the object's SHA-256 is "+sha+", not "+u.sha)
		return
	}
	if err := os.Rename(out.Name(), s.objectPath(u.sha)); err != nil {
		c.fail(http.StatusInternalServerError, "", err.Error())
		return
	}
	s.mu.Lock()
	s.objects[u.sha] = size
	delete(s.uploads, id)
	s.mu.Unlock()
	c.reply(http.StatusOK, map[string]any{"success": true})
}

// preupload responds how each file of a commit is to be sent, and with the sum of the branch's file
// of that name.
func (s *Server) preupload(c *call, r *repo, revision string) {
	if !c.mayWrite(r.id) {
		return
	}
	var request struct {
		Files []struct {
			Path   string `json:"path"`
			Size   int64  `json:"size"`
			Sample string `json:"sample"`
		} `json:"files"`
		GitIgnore *string `json:"gitIgnore"`
	}
	if err := json.NewDecoder(c.Body).Decode(&request); err != nil || len(request.Files) > 256 {
		c.fail(http.StatusBadRequest, "", "want at most 256 files")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.revision(c, r, revision)
	if at == nil {
		return
	}
	files := []map[string]any{}
	for _, f := range request.Files {
		sample, err := base64.StdEncoding.DecodeString(f.Sample)
		if err != nil || int64(len(sample)) != min(512, f.Size) {
			c.fail(http.StatusBadRequest, "", "the sample of "+f.Path+" is not its first 512 bytes")
			return
		}
		mode := "regular"
		if s.isLarge(f.Path, f.Size) {
			mode = "lfs"
		}
		entry := map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": ignored(request.GitIgnore, f.Path)}
		if there, ok := at.files[f.Path]; ok {
			entry["oid"] = there.oid
			if there.sha256 != "" {
				entry["oid"] = there.sha256
			}
		}
		files = append(files, entry)
	}
	c.reply(http.StatusOK, map[string]any{"files": files, "commitOid": at.id})
}

// ignored implements the simplest form of .gitignore: lines of the form *suffix, or a whole path.
func ignored(rules *string, name string) bool {
	if rules == nil {
		return false
	}
	for line := range strings.Lines(*rules) {
		line = strings.TrimSpace(line)
		suffix, isPattern := strings.CutPrefix(line, "*")
		if line != "" && (line == name || isPattern && suffix != "" && strings.HasSuffix(name, suffix)) {
			return true
		}
	}
	return false
}
