package artifact_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// bucket answers as S3 does: a list of the keys with a prefix, or an object.
func bucket(objects map[string]string, seen func(r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seen(r)
		key := strings.TrimPrefix(r.URL.Path, "/bucket/")
		if text, ok := objects[key]; ok {
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			w.Write([]byte(text)) //nolint:errcheck // the client reports a short body
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
		for name, text := range objects {
			if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, object{name, len(text)})
			}
		}
		slices.SortFunc(list.Contents, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
		xml.NewEncoder(w).Encode(list) //nolint:errcheck // as above
	}
}

func TestS3(t *testing.T) {
	h := newHarness(t, config())
	var authorization string
	seen := func(r *http.Request) { authorization = r.Header.Get("Authorization") }
	objects := map[string]string{"dir/a": "a", "dir/sub/b": "b", "file": "file", "a.tar.gz": string(gz(t, tarOf(t, []entry{{name: "x", text: "x"}})))}
	url := serve(t, map[string]http.HandlerFunc{
		"/bucket/": bucket(objects, seen), "/bucket": bucket(objects, seen),
	})
	keys := map[string]string{"aws_access_key_id": "id", "aws_access_key_secret": "secretkey"}
	r := h.gets(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/file", GetterOptions: keys})
	h.has("local/file", "file")
	if r.Digest != digest("file") || !strings.Contains(authorization, "Credential=id/") {
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
	objects["dir/../../../escaped"] = "x"
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/dir", GetterOptions: keys, RelativeDest: "local/e"}, "path traversal")
	delete(objects, "dir/../../../escaped")
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::http://169.254.169.254/latest/meta-data/x", GetterOptions: keys}, "link-local address")
	objects["large"] = strings.Repeat("x", 9<<20)
	h.refused(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/large", GetterOptions: keys}, "a file is larger than the limit of the download")
	// Without keys, the credentials of the node are not asked for.
	authorization = "none"
	r = h.get(&nomad.TaskArtifact{GetterSource: "s3::" + url + "/bucket/file", RelativeDest: "local/n"})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "EC2 IMDS") || authorization != "none" {
		t.Errorf("without keys: %v", r.Err)
	}
}

// The emulator of Google's storage is one of its official names.
func TestGCS(t *testing.T) {
	objects := map[string]string{"dir/a": "a", "dir/sub/b": "b", "file": "file"}
	url := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		if name, ok := strings.CutPrefix(r.URL.Path, "/bucket/"); ok {
			fmt.Fprint(w, objects[name])
			return
		}
		var items []map[string]string
		for name := range objects {
			if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
				items = append(items, map[string]string{"name": name, "bucket": "bucket"})
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items}) //nolint:errcheck // the client reports a short body
	}})
	const source = "gcs::https://www.googleapis.com/storage/v1/bucket/"
	cfg := config()
	cfg.Env = map[string]string{"STORAGE_EMULATOR_HOST": strings.TrimPrefix(url, "http://")}
	h := newHarness(t, cfg)
	h.gets(&nomad.TaskArtifact{GetterSource: source + "file"})
	h.has("local/file", "file")
	h.gets(&nomad.TaskArtifact{GetterSource: source + "dir", RelativeDest: "local/d"})
	h.has("local/d/a", "a")
	h.has("local/d/sub/b", "b")
	objects["dir/../../../escaped"] = "x"
	h.refused(&nomad.TaskArtifact{GetterSource: source + "dir", RelativeDest: "local/e"}, "path traversal")
}

// The same URL has another content for each download.
func TestSameURL(t *testing.T) {
	n := 0
	url := serve(t, map[string]http.HandlerFunc{"/a": func(w http.ResponseWriter, _ *http.Request) {
		n++
		fmt.Fprint(w, "content ", n)
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
	if n != 5 {
		t.Errorf("%d downloads", n)
	}
}
