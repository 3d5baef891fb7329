package container

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// image is what an image file describes.
type image struct {
	user    string
	command []string
	volumes []string
}

// root carries out the instructions of the image file in dir. sources maps the files of the build's
// context to files of the test.
func root(t *testing.T, text, dir string, sources map[string]string) image {
	t.Helper()
	var im image
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" || strings.HasPrefix(line, "#") {
			continue
		}
		rest := strings.TrimSpace(strings.TrimPrefix(line, words[0]))
		switch words[0] {
		case "FROM":
			if rest != "scratch" {
				t.Errorf("the image begins with %q, want scratch: nothing is fetched", rest)
			}
		case "ARG", "EXPOSE", "STOPSIGNAL":
		case "COPY":
			owner := "0:0"
			if flag, ok := strings.CutPrefix(words[1], "--chown="); ok {
				owner, words = flag, words[1:]
			}
			from, ok := sources[words[1]]
			if !ok || len(words) != 3 {
				t.Fatalf("%s: the context has no %s", line, words[1])
			}
			to := filepath.Join(dir, words[2])
			run(t, "mkdir", "-p", filepath.Dir(to))
			run(t, "cp", "-rT", from, to)
			run(t, "chown", "-R", owner, to)
		case "USER":
			im.user = rest
		case "VOLUME":
			im.volumes = append(im.volumes, rest)
		case "ENTRYPOINT", "CMD":
			var list []string
			if err := json.Unmarshal([]byte(rest), &list); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			im.command = append(im.command, list...)
		default:
			t.Fatalf("%s: the test does not know this instruction", line)
		}
	}
	return im
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// licences writes the texts of the licences as a release does, and returns their directory.
func licences(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./packaging/licenses", "write", dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write the licences: %v\n%s", err, out)
	}
	return dir
}

// serve starts the command of an image on a loopback interface of its own, requests the first token, and
// ends the agent. It prints what the user of the agent is, and its exit code.
const serve = `set -eu
ip link set lo up
chroot --userspec="$1" "$2" $3 >"$2.log" 2>&1 &
agent=$!
i=0
until chroot --userspec="$1" "$2" /usr/bin/nomad acl bootstrap >/dev/null 2>&1; do
	i=$((i + 1))
	if [ $i -gt 300 ] || ! kill -0 $agent; then cat "$2.log"; exit 1; fi
	sleep 0.1
done
stat -c '%u:%g' /proc/$agent
kill -TERM $agent
wait $agent && echo ended
`

func TestImage(t *testing.T) {
	bin, err := filepath.Abs("../../bin/nomad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil || os.Geteuid() != 0 {
		t.Skip("run make build, and this test as root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("install iproute2")
	}
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	arch := regexp.MustCompile(`ARG TARGETARCH=(\S+)`).FindSubmatch(text)
	if arch == nil {
		t.Fatal("the image file has no default of TARGETARCH")
	}
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	im := root(t, strings.ReplaceAll(string(text), "${TARGETARCH}", string(arch[1])), dir,
		map[string]string{"container/passwd": "passwd", "container/state": t.TempDir(),
			"nomad_linux_" + string(arch[1]): bin, "LICENSE": "../../LICENSE",
			"THIRD-PARTY-LICENSES": filepath.Join(licences(t), "THIRD-PARTY-LICENSES")})
	if len(im.volumes) != 1 || im.volumes[0] != "/var/lib/open-nomad-server" {
		t.Errorf("volumes %q, want that of data_dir", im.volumes)
	}
	run(t, "mkdir", "-p", filepath.Join(dir, "etc/nomad.d"))
	run(t, "cp", "../etc/server.hcl.example", filepath.Join(dir, "etc/nomad.d/server.hcl"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", serve, "serve",
		im.user, dir, strings.Join(im.command, " "))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "65532:65532\nended\n" {
		t.Errorf("the server of the image: %v\n%s", err, out)
	}
}
