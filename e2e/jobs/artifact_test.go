package jobs_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"aead.dev/minisign"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	_ "github.com/open-nomad/open-nomad/internal/fetch/getter"
)

// artifactServer serves files, and counts the requests of each.
type artifactServer struct {
	*httptest.Server
	files map[string][]byte
	count map[string]*atomic.Int64
}

func newArtifactServer(t *testing.T, files map[string][]byte) *artifactServer {
	t.Helper()
	s := &artifactServer{files: files, count: map[string]*atomic.Int64{}}
	for name := range files {
		s.count[name] = new(atomic.Int64)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		s.count[r.URL.Path].Add(1)
		w.Write(data) //nolint:errcheck // the client reports a short body
	}))
	t.Cleanup(s.Close)
	return s
}

// Artifacts arrive before the task starts, in the sandbox of each driver.
func TestArtifacts(t *testing.T) {
	a := harness.DevAgent(t)
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain, archive := []byte("plain\n"), tarFile(t, "dir/file", "archived\n")
	signed := minisign.NewReader(bytes.NewReader(archive))
	if _, err := new(bytes.Buffer).ReadFrom(signed); err != nil {
		t.Fatal(err)
	}
	s := newArtifactServer(t, map[string][]byte{"/plain": plain, "/a.tar": archive, "/a.tar.minisig": signed.Sign(private),
		"/link.tar": tarLink(t)})
	for name, test := range map[string]func(*testing.T, *cluster.Agent, *artifactServer, string){
		"exec2": artifactsOfExec2, "raw_exec": artifactsOfRawExec, "refused": artifactsRefused, "restart": artifactsRetried,
		"failures": artifactsFail,
	} {
		t.Run(name, func(t *testing.T) { test(t, a, s, public.String()) })
	}
}

func tarFile(t *testing.T, name, text string) []byte {
	t.Helper()
	return tarOne(t, &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}, text)
}

func tarLink(t *testing.T) []byte {
	t.Helper()
	return tarOne(t, &tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
}

func tarOne(t *testing.T, h *tar.Header, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// artifact returns a block.
func artifact(source string, more ...string) string {
	return fmt.Sprintf("artifact {\n source = %q\n %s\n}\n", source, strings.Join(more, "\n "))
}

func artifactsOfExec2(t *testing.T, a *cluster.Agent, s *artifactServer, key string) {
	blocks := artifact(s.URL+"/plain", `destination = "local/bin/"`, fmt.Sprintf("options {\n checksum = \"sha256:%x\"\n}",
		sha256.Sum256([]byte("plain\n")))) +
		artifact(s.URL+"/a.tar", `destination = "${NOMAD_ALLOC_DIR}/data/tree"`, fmt.Sprintf("verify {\n minisign_key = %q\n}", key)) +
		artifact(s.URL+"/plain", `destination = "local/named"`, `mode = "file"`)
	script := `cat local/bin/plain local/named $NOMAD_ALLOC_DIR/data/tree/dir/file > $NOMAD_ALLOC_DIR/data/out; ls -A | grep nomad-artifact >> $NOMAD_ALLOC_DIR/data/out; stat -c %u local/named >> $NOMAD_ALLOC_DIR/data/out; id -u >> $NOMAD_ALLOC_DIR/data/out`
	id, _ := harness.Run(t, a, harness.Job("artifacts", `type = "batch"`,
		harness.Once+strings.Replace(harness.Shell(script, blocks), `"raw_exec"`, `"exec2"`, 1)))
	al := harness.Await(t, a, id, "complete", 1)[0]
	lines := strings.Fields(harness.SharedFile(t, a, al, "out"))
	if len(lines) != 5 || strings.Join(lines[:3], " ") != "plain plain archived" || lines[3] != lines[4] || lines[4] == "0" {
		t.Errorf("the task sees %q, want three files and its own uid twice", lines)
	}
	if ev := harness.Event(t, al, "t", api.TaskDownloadingArtifacts); ev.DisplayMessage != "Client is downloading artifacts, confined by driver exec2" {
		t.Errorf("event: %s", ev.DisplayMessage)
	}
}

func artifactsOfRawExec(t *testing.T, a *cluster.Agent, s *artifactServer, _ string) {
	id, _ := harness.Run(t, a, harness.Job("rawartifacts", `type = "batch"`,
		harness.Once+harness.Shell("cat local/plain > $NOMAD_ALLOC_DIR/data/out", artifact(s.URL+"/plain"))))
	al := harness.Await(t, a, id, "complete", 1)[0]
	if got := harness.SharedFile(t, a, al, "out"); got != "plain\n" {
		t.Errorf("the task sees %q", got)
	}
	if ev := harness.Event(t, al, "t", api.TaskDownloadingArtifacts); !strings.Contains(ev.DisplayMessage, "confined by ") {
		t.Errorf("event: %s", ev.DisplayMessage)
	}
}

// Registration refuses what the servers can know.
func artifactsRefused(t *testing.T, a *cluster.Agent, _ *artifactServer, _ string) {
	for block, want := range map[string]string{
		artifact("file:///etc/passwd"):                                    `task "t", artifact "file:///etc/passwd": source: local files are not supported: use a URL`,
		artifact("gopher://h/x"):                                          `source: unknown scheme "gopher": use http or https`,
		artifact("https://h/x", `mode = "tree"`):                          `mode is "tree": use any, file or dir`,
		artifact("https://h/x", `destination = "../../x"`):                `destination "../../x" is outside`,
		artifact("https://h/x", "options {\n checksum = \"crc32:00\"\n}"): `options: unknown checksum type "crc32"`,
		artifact("https://u:secret@h/x?token=secret",
			"verify {\n minisign_key = \"x\"\n}"): `artifact "https://h/x": verify: minisign_key: not a public key`,
	} {
		j, err := a.Client.Jobs().ParseHCL(harness.Job("refused", `type = "batch"`, harness.Once+harness.Shell("true", block)), true)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = a.Client.Jobs().Register(j, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Register() = %v, want an error with %q", err, want)
		}
	}
}

// A failed artifact is tried again by the restart policy. What was downloaded stays.
func artifactsRetried(t *testing.T, a *cluster.Agent, s *artifactServer, _ string) {
	before := s.count["/plain"].Load()
	policy := "restart {\n attempts = 2\n delay = \"1s\"\n interval = \"1h\"\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n"
	id, _ := harness.Run(t, a, harness.Job("retried", `type = "batch"`,
		policy+harness.Shell("true", artifact(s.URL+"/plain"), artifact(s.URL+"/absent?token=secret"))))
	al := harness.Await(t, a, id, "failed", 1)[0]
	ev := harness.Event(t, al, "t", api.TaskArtifactDownloadFailed)
	if want := fmt.Sprintf("failed to download artifact %q: bad response code: 404", s.URL+"/absent"); ev.DisplayMessage != want ||
		ev.Details["download_error"] != want {
		t.Errorf("event %q, details %v, want %q", ev.DisplayMessage, ev.Details, want)
	}
	if n := s.count["/plain"].Load() - before; n != 1 {
		t.Errorf("the good artifact was downloaded %d times", n)
	}
	harness.Event(t, al, "t", api.TaskRestarting)
}

// Each failure names its reason in the event.
func artifactsFail(t *testing.T, a *cluster.Agent, s *artifactServer, key string) {
	for name, c := range map[string]struct{ block, want string }{
		"link":     {artifact(s.URL + "/link.tar"), `archive refused: "link" is a symbolic link to "/etc/passwd"`},
		"metadata": {artifact("http://169.254.169.254/latest/meta-data/"), "connection to 169.254.169.254 refused: link-local address"},
		"checksum": {artifact(s.URL+"/plain", "options {\n checksum = \"md5:00000000000000000000000000000000\"\n}"), "checksum does not match"},
		"signature": {artifact(s.URL+"/plain", fmt.Sprintf("verify {\n minisign_key = %q\n signature = %q\n}", key, s.URL+"/a.tar.minisig")),
			"the signature does not match the file"},
		"reference": {artifact(s.URL+"/plain", `destination = "${NOMAD_META_up}/x"`), "outside the task's directory"},
	} {
		t.Run(name, func(t *testing.T) {
			id, _ := harness.Run(t, a, harness.Job("fails-"+name, "type = \"batch\"\nmeta {\n up = \"../..\"\n}",
				harness.Once+harness.Shell("true", c.block)))
			al := harness.Await(t, a, id, "failed", 1)[0]
			if ev := harness.Event(t, al, "t", api.TaskArtifactDownloadFailed); !strings.Contains(ev.Details["download_error"], c.want) {
				t.Errorf("event %q, want %q", ev.Details["download_error"], c.want)
			}
		})
	}
}
