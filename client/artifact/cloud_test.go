package artifact_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// bucket is a bucket that a server of S3 or GCS serves while a test changes it.
type bucket struct {
	mu            sync.Mutex
	objects       map[string]string
	authorization string // of the latest request
}

func newBucket(objects map[string]string) *bucket { return &bucket{objects: objects} }

// set adds an object.
func (b *bucket) set(name, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[name] = text
}

func (b *bucket) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
}

// lastAuthorization returns the header of the latest request, and forgets it.
func (b *bucket) lastAuthorization() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.authorization
	b.authorization = ""
	return last
}

// object returns the object of a request for /bucket/NAME.
func (b *bucket) object(r *http.Request) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.authorization = r.Header.Get("Authorization")
	text, ok := b.objects[strings.TrimPrefix(r.URL.Path, "/bucket/")]
	return text, ok
}

// list returns the sizes of the objects with a prefix.
func (b *bucket) list(prefix string) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	sizes := map[string]int{}
	for name, text := range b.objects {
		if strings.HasPrefix(name, prefix) {
			sizes[name] = len(text)
		}
	}
	return sizes
}

// s3 answers as S3 does: a list of the keys with a prefix, or an object.
func (b *bucket) s3(w http.ResponseWriter, r *http.Request) {
	if text, ok := b.object(r); ok {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		io.WriteString(w, text) //nolint:errcheck // the client reports a short body
		return
	}
	type object struct {
		Key  string
		Size int
	}
	list := struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Name        string
		IsTruncated bool
		Contents    []object
	}{Name: "bucket"}
	sizes := b.list(r.URL.Query().Get("prefix"))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		list.Contents = append(list.Contents, object{name, sizes[name]})
	}
	xml.NewEncoder(w).Encode(list) //nolint:errcheck // as above
}

// gcs answers as Google's storage does.
func (b *bucket) gcs(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/bucket/") {
		text, _ := b.object(r)
		io.WriteString(w, text) //nolint:errcheck // the client reports a short body
		return
	}
	var items []map[string]string
	for _, name := range slices.Sorted(maps.Keys(b.list(r.URL.Query().Get("prefix")))) {
		items = append(items, map[string]string{"name": name, "bucket": "bucket"})
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items}) //nolint:errcheck // as above
}

func TestS3(t *testing.T) {
	h := newHarness(t, config())
	b := newBucket(map[string]string{"dir/a": "a", "dir/sub/b": "b", "file": "file",
		"a.tar.gz": string(gz(t, tarOf(t, []entry{{name: "x", text: "x"}})))})
	url := serve(t, map[string]http.HandlerFunc{"/bucket/": b.s3, "/bucket": b.s3})
	keys := map[string]string{"aws_access_key_id": "id", "aws_access_key_secret": "secretkey"}
	r := h.gets(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/file", GetterOptions: keys})
	h.has("local/file", "file")
	if authorization := b.lastAuthorization(); r.Digest != digest("file") || !strings.Contains(authorization, "Credential=id/") {
		t.Errorf("result %+v, authorization %s", r, authorization)
	}
	r = h.gets(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/dir", GetterOptions: keys, RelativeDest: "local/d"})
	h.has("local/d/a", "a")
	h.has("local/d/sub/b", "b")
	if r.Digest != "" {
		t.Errorf("a directory has the digest %s", r.Digest)
	}
	h.gets(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/a.tar.gz", GetterOptions: keys, RelativeDest: "local/t"})
	h.has("local/t/x", "x")
	b.set("dir/../../../escaped", "x")
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/dir", GetterOptions: keys, RelativeDest: "local/e"}, "path traversal")
	b.remove("dir/../../../escaped")
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::http://169.254.169.254/latest/meta-data/x", GetterOptions: keys}, "link-local address")
	b.set("large", strings.Repeat("x", 9<<20))
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/large", GetterOptions: keys},
		"a file is larger than the limit of the download")
	// Without keys, the credentials of the node are not asked for.
	b.lastAuthorization()
	r = h.get(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/file", RelativeDest: "local/n"})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "EC2 IMDS") || b.lastAuthorization() != "" {
		t.Errorf("without keys: %v", r.Err)
	}
}

// The emulator of Google's storage is one of its official names.
func TestGCS(t *testing.T) {
	b := newBucket(map[string]string{"dir/a": "a", "dir/sub/b": "b", "file": "file"})
	url := serve(t, map[string]http.HandlerFunc{"/": b.gcs})
	const source = "gcs::https://www.googleapis.com/storage/v1/bucket/"
	cfg := config()
	cfg.Env = map[string]string{"STORAGE_EMULATOR_HOST": strings.TrimPrefix(url, "http://")}
	h := newHarness(t, cfg)
	h.gets(&nomad.TaskArtifact{GetterSource: source + "file"})
	h.has("local/file", "file")
	h.gets(&nomad.TaskArtifact{GetterSource: source + "dir", RelativeDest: "local/d"})
	h.has("local/d/a", "a")
	h.has("local/d/sub/b", "b")
	b.set("dir/../../../escaped", "x")
	h.refused(&nomad.TaskArtifact{GetterSource: source + "dir", RelativeDest: "local/e"}, "path traversal")
}

// The same URL has another content for each download.
func TestSameURL(t *testing.T) {
	var n atomic.Int64
	url := serve(t, map[string]http.HandlerFunc{"/a": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "content ", n.Add(1))
	}})
	f := newCached(t, t.TempDir())
	for i := 1; i <= 4; i++ {
		want := fmt.Sprint("content ", i)
		a := &nomad.TaskArtifact{GetterSource: url + "/a"}
		if i > 2 {
			a.GetterSource += "?checksum=" + digest(want)
		}
		h := withFetcher(t, f)
		if r := h.gets(a); r.Digest != digest(want) {
			t.Errorf("download %d: %+v", i, r)
		}
		h.has("local/a", want)
	}
	h := withFetcher(t, f)
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/a?checksum=" + digest("content 1")}, "checksum does not match")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a?checksum=" + digest("content 3")})
	h.has("local/a", "content 3")
	if n.Load() != 5 {
		t.Errorf("%d downloads", n.Load())
	}
}
