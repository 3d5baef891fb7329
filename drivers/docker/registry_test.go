package docker_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// registry is a registry of one image on loopback, with a password.
type registry struct {
	*httptest.Server
	mu     sync.Mutex
	layers int           // requests of the layer
	tags   int           // lookups of a tag
	asked  int           // requests of a manifest by digest
	slow   chan struct{} // the layer comes when it is closed, if it is set
}

const (
	registryUser   = "reader"
	registrySecret = "let me in"
)

// digest returns the digest of a blob.
func digest(blob []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(blob)) }

// newRegistry serves the image <host>/web:1, and <host>/web:latest.
func newRegistry(t *testing.T) *registry {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox of Debian's package busybox-static")
	}
	root := testdocker.Root(t, busybox)
	var layer bytes.Buffer
	zip := gzip.NewWriter(&layer)
	zip.Write(root)
	zip.Close()
	config, _ := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(root)}}})
	manifest, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": layer.Len(),
			"digest": digest(layer.Bytes())}}})
	r := &registry{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if user, secret, _ := req.BasicAuth(); user != registryUser || secret != registrySecret {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(req.URL.Path, "/manifests/1") {
			r.mu.Lock()
			r.tags++
			r.mu.Unlock()
		}
		if strings.Contains(req.URL.Path, "/manifests/sha256:") {
			r.mu.Lock()
			r.asked++
			r.mu.Unlock()
		}
		switch path := req.URL.Path; {
		case path == "/v2/":
		case path == "/v2/web/manifests/1", path == "/v2/web/manifests/latest", path == "/v2/web/manifests/"+digest(manifest):
			w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
			w.Header().Set("Docker-Content-Digest", digest(manifest))
			w.Write(manifest)
		case strings.HasSuffix(path, digest(config)):
			w.Write(config)
		case strings.HasSuffix(path, digest(layer.Bytes())):
			r.layer(w, layer.Bytes())
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// layer serves the layer: half of it at once, the rest when slow is closed.
func (r *registry) layer(w http.ResponseWriter, blob []byte) {
	r.mu.Lock()
	r.layers++
	slow := r.slow
	r.mu.Unlock()
	w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
	half := len(blob) / 2
	w.Write(blob[:half])
	w.(http.Flusher).Flush()
	if slow != nil {
		select {
		case <-slow:
		case <-time.After(time.Minute):
		}
	}
	w.Write(blob[half:])
}

func (r *registry) image(tag string) string {
	return strings.TrimPrefix(r.URL, "http://") + "/web:" + tag
}

// requests returns how often the layer was fetched, and a tag looked up.
func (r *registry) requests() (layers, tags int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.layers, r.tags
}

// authFile writes a config.json with the password.
func (r *registry) authFile(t *testing.T, f *fixture) string {
	t.Helper()
	text, _ := json.Marshal(map[string]any{"auths": map[string]any{strings.TrimPrefix(r.URL, "http://"): map[string]any{
		"auth": base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registrySecret))}}})
	f.write(f.dir, "config.json", string(text))
	return f.dir + "/config.json"
}

// helper returns the auth block of a credential helper.
func (r *registry) helper(t *testing.T) block {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nread host\n[ \"$1 $host\" = \"get %s\" ] || exit 1\necho '{\"Username\": \"%s\", \"Secret\": \"%s\"}'\n",
		strings.TrimPrefix(r.URL, "http://"), registryUser, registrySecret)
	if err := os.WriteFile(dir+"/docker-credential-test", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return block{"helper": "test", "helper_dir": dir}
}

// helperFile writes a config.json that names the helper of the registry, and storeFile one that names it for all.
func (r *registry) helperFile(t *testing.T, f *fixture) string {
	t.Helper()
	f.write(f.dir, "helpers.json", fmt.Sprintf(`{"credHelpers": {%q: "test"}, "credsStore": "none"}`, strings.TrimPrefix(r.URL, "http://")))
	return f.dir + "/helpers.json"
}

func (r *registry) storeFile(t *testing.T, f *fixture) string {
	t.Helper()
	f.write(f.dir, "store.json", `{"credHelpers": {"other.example": "none"}, "credsStore": "test"}`)
	return f.dir + "/store.json"
}
