package images

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// helperOf writes a helper, and returns its directory.
func helperOf(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-x"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ask asks the helper x of a directory.
func ask(ctx context.Context, dir string) (*config.Credentials, error) {
	return fromHelper(ctx, &config.Plugin{HelperDir: dir}, "x", "registry.example")
}

// A helper gets the registry, and nothing of the agent's environment and directory.
func TestHelperEnvironment(t *testing.T) {
	t.Setenv("NOMAD_SECRET_OF_TEST", "hidden")
	dir := helperOf(t, `read host; [ "$1 $host" = "get registry.example" ] || exit 1
[ "$(pwd)" = / ] || exit 2
names=$(env | cut -d= -f1 | sort | tr '\n' ' ')
echo "{\"Username\": \"u\", \"Secret\": \"$names\"}"`)
	got, err := ask(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Username != "u" || got.Secret != "HOME PATH PWD " { // the shell adds PWD
		t.Errorf("environment = %q, want HOME and PATH", got.Secret)
	}
}

// A program runs only if it is in the directory, and if only root and the user of the agent can change it.
func TestHelperPlace(t *testing.T) {
	const answer = `echo '{"Username": "u", "Secret": "s"}'`
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"plain": {func(*testing.T, string) {}, ""},
		"writable program": {func(t *testing.T, dir string) { chmod(t, dir+"/docker-credential-x", 0o777) },
			"others than root and the user of the agent can change"},
		"writable directory": {func(t *testing.T, dir string) { chmod(t, dir, 0o777) },
			"others than root and the user of the agent can change"},
		"of another user": {func(t *testing.T, dir string) {
			if err := os.Chown(dir+"/docker-credential-x", 1234, 1234); err != nil {
				t.Skip("needs root")
			}
		}, "others than root and the user of the agent can change"},
		"link into a writable directory": {func(t *testing.T, dir string) {
			other := helperOf(t, answer)
			chmod(t, other, 0o777)
			replace(t, other+"/docker-credential-x", dir)
		}, "others than root and the user of the agent can change"},
		"link": {func(t *testing.T, dir string) { replace(t, helperOf(t, answer)+"/docker-credential-x", dir) }, ""},
		"directory": {func(t *testing.T, dir string) {
			os.Remove(dir + "/docker-credential-x")
			os.Mkdir(dir+"/docker-credential-x", 0o755)
		}, "is not a regular file"},
		"in PATH only": {func(t *testing.T, dir string) {
			os.Remove(dir + "/docker-credential-x")
			t.Setenv("PATH", helperOf(t, answer)+":"+os.Getenv("PATH"))
		}, "is not in " + os.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := helperOf(t, answer)
			c.change(t, dir)
			got, err := ask(t.Context(), dir)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("fromHelper() = %v, %v, want %q", got, err, c.want)
			}
			if err == nil && got.Secret != "s" {
				t.Errorf("fromHelper() = %+v", got)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// replace replaces the helper of a directory by a link.
func replace(t *testing.T, target, dir string) {
	t.Helper()
	if err := os.Remove(dir + "/docker-credential-x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, dir+"/docker-credential-x"); err != nil {
		t.Fatal(err)
	}
}

// What a helper writes is bounded, and is in no error.
func TestHelperOutput(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"failure":        {"echo hidden; echo hidden >&2; exit 3", "exit status 3"},
		"no JSON":        {"echo hidden", "is not JSON"},
		"much":           {"printf '{\"Username\": \"hidden'; head -c 200000000 /dev/zero | tr '\\0' h", "is not JSON"},
		"no credentials": {"echo credentials not found in native keychain; exit 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t.Context(), helperOf(t, c.script))
			if (err == nil) != (c.want == "") || got != nil || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("fromHelper() = %v, %v, want %q", got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error has the output: %v", err)
			}
		})
	}
}

// A helper that hangs ends with its time, and so do the processes that any helper leaves.
func TestHelperEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		fails  bool
	}{
		"hangs": {"sleep 1000 & echo $! >%; wait", true},
		"ignores signals, and its child holds the output": {"trap '' TERM INT HUP; sleep 1000 & echo $! >%; sleep 1000", true},
		"leaves a child": {"sleep 1000 >/dev/null 2>&1 & echo $! >%; echo '{}'", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			dir := helperOf(t, strings.ReplaceAll(c.script, "%", file))
			done := make(chan error, 1)
			go func() {
				_, err := ask(ctx, dir)
				done <- err
			}()
			var pid int
			testpace.Until(t, "the child of the helper", func() bool {
				text, _ := os.ReadFile(file)
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return pid > 0
			})
			if c.fails {
				cancel()
			}
			select {
			case err := <-done:
				if (err != nil) != c.fails {
					t.Errorf("fromHelper() = %v, want an error: %t", err, c.fails)
				}
			case <-time.After(time.Minute):
				t.Fatal("the helper does not end")
			}
			testpace.Until(t, "the end of the child", func() bool { return ended(pid) })
		})
	}
}

// ended reports whether a process does not exist, or only waits to be reaped.
func ended(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
