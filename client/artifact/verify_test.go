package artifact_test

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"aead.dev/minisign"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
)

func TestChecksum(t *testing.T) {
	h := newHarness(t, config())
	archive := gz(t, tarOf(t, []entry{{name: "a", text: "text"}}))
	wrong := bytes.Clone(archive)
	wrong[9] ^= 1 // one bit of the header of gzip, which changes nothing but the checksum
	sum := fmt.Sprintf("%x", sha256.Sum256(archive))
	off := "0" + sum[1:]
	if sum[0] == '0' {
		off = "1" + sum[1:]
	}
	list := "other  x.tgz\n" + sum + "  a.tgz\n"
	url := serve(t, map[string]http.HandlerFunc{"/a.tgz": content(archive), "/wrong.tgz": content(wrong), "/sums": content(list),
		"/bsd":     content("SHA256 (a.tgz) = " + sum + "\n"),
		"/badsums": content(off + "  a.tgz\n"), "/nosums": content(sum + "  b.tgz\n"), "/plain": content("plain")})
	for _, checksum := range []string{"sha256:" + sum, sum, "SHA256:" + strings.ToUpper(sum), fmt.Sprintf("md5:%x", md5.Sum(archive)),
		fmt.Sprintf("%x", sha1.Sum(archive)),
		fmt.Sprintf("sha512:%x", sha512.Sum512(archive)), "file:" + url + "/sums", "file:" + url + "/bsd"} {
		r := h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.tgz", RelativeDest: "local/x",
			GetterOptions: map[string]string{"checksum": checksum}})
		h.has("local/x/a", "text")
		if r.Digest != "sha256:"+sum {
			t.Errorf("%s: digest %s", checksum, r.Digest)
		}
	}
	for checksum, want := range map[string]string{
		"sha256:" + off: "checksum does not match", off: "checksum does not match",
		fmt.Sprintf("md5:%x", md5.Sum(wrong)): "checksum does not match", "file:" + url + "/badsums": "checksum does not match",
		"file:" + url + "/nosums": "no checksum found", "file:" + url + "/absent": "404",
		"file:file:///etc/passwd": "not supported for scheme 'file'", "crc32:00": "unknown checksum type",
		"file:http://169.254.169.254/x": "link-local address", "sha256:" + sum[:10]: "sha256 has 32",
	} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/a.tgz", GetterOptions: map[string]string{"checksum": checksum}}, want)
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/wrong.tgz", GetterOptions: map[string]string{"checksum": "sha256:" + sum}},
		"checksum does not match")
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/plain?checksum=" + sum}, "checksum does not match")
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/plain/", GetterOptions: map[string]string{"checksum": sum}},
		"checksum cannot be specified for directory download")
}

// The parent checks the checksum too, over the file that it unpacks.
func TestChecksumOfParent(t *testing.T) {
	h := newHarness(t, config())
	url := serve(t, map[string]http.HandlerFunc{"/a": content("text")})
	run := h.task.Run
	h.task.Run = captured(func(work string, w io.Writer) error {
		return errors.Join(os.WriteFile(work+"/archive", []byte("of the attacker"), 0o644), done(w, fetch.Message{Archive: true}))
	}).run
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/a", GetterOptions: map[string]string{"checksum": digest("text")}},
		"checksum does not match: expected sha256:")
	h.task.Run = run
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a", GetterOptions: map[string]string{"checksum": digest("text")}})
}

func TestVerify(t *testing.T) {
	h := newHarness(t, config())
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, foreign, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	archive := gz(t, tarOf(t, []entry{{name: "a", text: "text"}}))
	sign := func(data []byte, key minisign.PrivateKey) []byte {
		r := minisign.NewReader(bytes.NewReader(data))
		if _, err := new(bytes.Buffer).ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		return r.SignWithComments(key, "trusted", "untrusted")
	}
	good := sign(archive, private)
	var token atomic.Value
	url := serve(t, map[string]http.HandlerFunc{
		"/a.tgz": content(archive), "/plain": content("plain"), "/plain.minisig": content(sign([]byte("plain"), private)), "/sig": content(good),
		"/a.tgz.minisig": func(w http.ResponseWriter, r *http.Request) {
			token.Store(r.Header.Get("X-Token") + " " + r.URL.RawQuery)
			w.Write(good) //nolint:errcheck // a response
		},
		"/changed.tgz": content(append(bytes.Clone(archive), 0)), "/changed.tgz.minisig": content(good),
		"/foreign": content(sign(archive, foreign)), "/legacy": content(minisign.Sign(private, archive)), "/text": content("text"),
		"/large":   content(make([]byte, 17<<10)),
		"/comment": content(bytes.Replace(good, []byte("trusted comment: trusted"), []byte("trusted comment: changed"), 1)),
	})
	key := public.String()
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.tgz?q=1&checksum=" + strings.TrimPrefix(digest(string(archive)), "sha256:"),
		RelativeDest: "local/x", GetterHeaders: map[string]string{"X-Token": "t"},
		Verify: &nomad.ArtifactVerify{MinisignKey: key}})
	h.has("local/x/a", "text")
	if got := token.Load(); got != "t q=1" {
		t.Errorf("the signature was requested with header and query %q", got)
	}
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/plain",
		Verify: &nomad.ArtifactVerify{MinisignKey: "untrusted comment: key\n" + key + "\n"}})
	h.has("local/plain", "plain")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.tgz", RelativeDest: "local/y",
		Verify: &nomad.ArtifactVerify{MinisignKey: key, Signature: url + "/sig"}})
	for name, c := range map[string]struct{ source, signature, key, want string }{
		"changed file":    {"/changed.tgz", "", key, "verify: the signature does not match the file"},
		"another file":    {"/plain", "/sig", key, "verify: the signature does not match the file"},
		"foreign key":     {"/a.tgz", "/foreign", key, "verify: the signature was made with key"},
		"wrong key":       {"/a.tgz", "", other.String(), "verify: the signature was made with key"},
		"legacy":          {"/a.tgz", "/legacy", key, "verify: the signature is of the legacy kind"},
		"trusted comment": {"/a.tgz", "/comment", key, "verify: the signature does not match the file"},
		"text":            {"/a.tgz", "/text", key, "is not a signature of minisign"},
		"large":           {"/a.tgz", "/large", key, "download the signature: response is larger than the limit of 16384 bytes"},
		"absent":          {"/sig", "", key, "download the signature: bad response code: 404"},
		"local":           {"/a.tgz", "file:///etc/passwd", key, "verify: signature: local files are not supported"},
		"metadata":        {"/a.tgz", "http://169.254.169.254/x", key, "link-local address"},
		"no key":          {"/a.tgz", "", "abc", "minisign_key is not a public key"},
	} {
		t.Run(name, func(t *testing.T) {
			h.t, h.runs = t, nil
			if strings.HasPrefix(c.signature, "/") {
				c.signature = url + c.signature
			}
			h.refused(&nomad.TaskArtifact{GetterSource: url + c.source, Verify: &nomad.ArtifactVerify{MinisignKey: c.key, Signature: c.signature}},
				c.want)
			if runs := len(h.runs); runs > 0 && h.runs[runs-1].NoTCP {
				t.Error("the archive was unpacked before its signature was checked")
			}
		})
	}
}
