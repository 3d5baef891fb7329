package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) > 1 && filepath.Base(os.Args[0]) == "own" { // this test as a plugin that is not a script
		conn, err := net.Dial("unix", "@open-nomad-secret-plugin-test")
		if err == nil {
			conn.Close()
		}
		links, _ := os.ReadDir("/proc/self/fd") // empty on error
		fmt.Printf(`{"result": {"args": %q, "env": %q, "uid": "%d", "reached": "%t", "descriptors": "%d"}}`, strings.Join(os.Args[1:], " "),
			strings.Join(os.Environ(), " "), os.Geteuid(), err == nil, len(links))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// node is a node with plugins.
type node struct {
	t       *testing.T
	dir     string // of the plugins
	plugins *Plugins
	log     *testbuffer.Buffer
}

// newNode returns a node without plugins. The directories of its agent are hidden from them, as those of an agent are.
func newNode(t *testing.T) *node {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "secret") // not below /tmp, which plugins do not see anyway
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	users, err := driverset.NewUsers(84000, 84010)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: filepath.Join(base, "common", "secrets"), log: &testbuffer.Buffer{}}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(base, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "token"), []byte("agent-secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.plugins = NewPlugins(PluginsConfig{CommonDir: filepath.Dir(n.dir), StateDir: state, Users: users,
		Confiner: &process.Confiner{Sidecars: &process.Groups{}, AgentDirs: []string{base}}, Log: slog.New(slog.NewTextHandler(n.log, nil))})
	return n
}

// script installs a plugin.
func (n *node) script(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		n.t.Fatal(err)
	}
}

// fetch fetches a block of the plugin.
func (n *node) fetch(name string, env map[string]string) (map[string]string, error) {
	n.t.Helper()
	t := &Task{Namespace: "prod", JobID: "shop", Secrets: []*nomad.Secret{{Name: "s", Provider: name, Path: "a b", Env: env}}, Env: environment(),
		Log: slog.New(slog.DiscardHandler)}
	return (&Node{Plugins: n.plugins}).Fetch(n.t.Context(), t)
}

func environment() *taskenv.Env {
	return taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: &nomad.Allocation{ID: "a", Name: "j.g[0]", Namespace: "prod"},
		Task: &nomad.Task{Name: "web"}}).Build()
}

func TestPlugin(t *testing.T) {
	n := newNode(t)
	n.script("shell", `printf '{"result": {"k": "a # \"b\"\\n c "}, "error": null}'; echo hidden >&2`)
	got, err := n.fetch("shell", nil)
	if err != nil || len(got) != 1 || got["s.k"] != "a # \"b\"\n c " {
		t.Errorf("fetch = %q, %v", got, err)
	}
	if text := n.log.String(); !strings.Contains(text, "bytes=7") || strings.Contains(text, "hidden") {
		t.Errorf("log = %s", text)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "own"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err = n.fetch("own", map[string]string{"TASK": "${NOMAD_TASK_NAME}", "NOMAD_JOB_ID": "other"})
	if err != nil || got["s.args"] != "fetch a b" || got["s.env"] != "CPI_OPERATION=fetch NOMAD_JOB_ID=shop NOMAD_NAMESPACE=prod TASK=web" {
		t.Errorf("fetch = %q, %v", got, err)
	}
	n.script("null", `echo '{"result": null}'`)
	if got, err := n.fetch("null", nil); err != nil || len(got) != 0 {
		t.Errorf("fetch = %q, %v", got, err)
	}
	if left, err := os.ReadDir(n.plugins.runs); err != nil || len(left) > 0 {
		t.Errorf("remaining: %v, %v", left, err)
	}
}

// A plugin gets the values of the blocks before it.
func TestPlugin_Order(t *testing.T) {
	n := newNode(t)
	n.script("one", `echo '{"result": {"k": "first"}}'`)
	n.script("two", `echo "{\"result\": {\"k\": \"$GIVEN\"}}"`)
	task := &Task{Secrets: []*nomad.Secret{{Name: "a", Provider: "one", Path: "p"},
		{Name: "b", Provider: "two", Path: "p", Env: map[string]string{"GIVEN": "<${secret.a.k}>"}}}, Env: environment()}
	got, err := (&Node{Plugins: n.plugins}).Fetch(t.Context(), task)
	if err != nil || got["b.k"] != "<first>" {
		t.Errorf("Fetch() = %q, %v", got, err)
	}
}

func TestPlugin_Faults(t *testing.T) {
	n := newNode(t)
	n.script("status", "echo top-secret >&2; echo top-secret; exit 7")
	n.script("junk", "echo top-secret")
	n.script("nested", `echo '{"result": {"k": {"top-secret": 1}}}'`)
	n.script("refuses", `echo '{"result": null, "error": "no such path"}'`)
	n.script("killed", "kill -9 $$")
	n.script("flood", "exec cat /dev/zero")
	n.script("large", "head -c 1100000 /dev/zero")
	n.script("plain", "")
	n.script("open", "")
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "open": 0o757} {
		if err := os.Chmod(filepath.Join(n.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/true", filepath.Join(n.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(n.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"status":  `failed executing plugin "status" for secret "s": exit status 7`,
		"junk":    "its output is not JSON",
		"nested":  "its output is not JSON",
		"refuses": `provider "refuses" for secret "s" response contained error: "no such path"`,
		"killed":  "signal 9",
		"flood":   "it printed more than 1 MiB and was killed",
		"large":   "it printed more than 1 MiB and was killed",
		"plain":   `plugin not executable: "plain"`,
		"open":    "can be written by other users",
		"link":    "passes through a link",
		"dir":     "plugin \"dir\"",
		"none":    `plugin not found: "none"`,
	} {
		_, err := n.fetch(name, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if strings.Contains(n.log.String(), "top-secret") {
		t.Errorf("log = %s", n.log.String())
	}
	if err := os.Chmod(n.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := n.fetch("status", nil); err == nil || !strings.Contains(err.Error(), "can be written by other users") {
		t.Errorf("a plugin of a directory that everybody can write: %v", err)
	}
}

// A plugin that does not end is killed with its descendants, also those that left its session.
func TestPlugin_Hangs(t *testing.T) {
	n := newNode(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n.script("hang", fmt.Sprintf(`setsid bash -c 'exec 3<>/dev/tcp/127.0.0.1/%s; exec sleep 1000' </dev/null & sleep 1000`, port))
	conn := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		c, err := l.Accept()
		if err == nil {
			cancel() // the descendant runs: the call is ended
			_, err = c.Read(make([]byte, 1))
		}
		conn <- err
	}()
	begun := time.Now()
	if _, err := n.plugins.call(ctx, call{plugin: "hang", args: []string{"fetch", "x"}, limit: time.Minute}); err == nil {
		t.Error("a call that was ended has no error")
	}
	if err := <-conn; err == nil || err.Error() != "EOF" {
		t.Errorf("the connection of the descendant: %v, want its end", err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	n.script("leaves", `setsid sleep 1000 & echo '{"result": {}}'`)
	begun = time.Now()
	if _, err := n.fetch("leaves", nil); err != nil {
		t.Errorf("leaves: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("leaves took %v", took)
	}
	if _, err := n.plugins.call(t.Context(), call{plugin: "hang", args: []string{"fetch", "x"}, limit: 100 * time.Millisecond}); err == nil ||
		!strings.Contains(err.Error(), "it did not end within 100ms and was killed") {
		t.Errorf("after its time: %v", err)
	}
}

// Fetches do not wait for fingerprints, nor fingerprints for fetches.
func TestPlugin_Slots(t *testing.T) {
	n := newNode(t)
	n.script("own", `test $1 = fetch && echo '{"result": {"k": "v"}}' || echo '{"type": "secrets", "version": "1.2.3"}'`)
	for range maxFingerprints {
		n.plugins.fingerprints <- struct{}{}
	}
	if got, err := n.fetch("own", nil); err != nil || got["s.k"] != "v" {
		t.Errorf("fetch = %q, %v", got, err)
	}
	for range maxFingerprints {
		<-n.plugins.fingerprints
	}
	for range maxFetches {
		n.plugins.fetches <- struct{}{}
	}
	if got := n.plugins.Fingerprint(t.Context()); got[nomad.SecretsAttribute("own")] != "1.2.3" {
		t.Errorf("Fingerprint() = %v", got)
	}
}

// A fetch that waits for calls of other tasks is reported, and so is one whose plugin does not answer.
func TestPlugin_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlugins(PluginsConfig{CommonDir: t.TempDir(), StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		for range maxFetches {
			p.fetches <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var waits []string
		_, err := (&Node{Plugins: p}).Fetch(ctx, waitingTask(func(reason string) { waits = append(waits, reason) }))
		want := []string{`plugin "slow" for secret "s" waits for calls of other tasks: at most 4 run at a time`}
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(waits, want) {
			t.Errorf("error %v, reasons %q", err, waits)
		}
	})
	n := newNode(t)
	n.script("slow", "sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var waits []string
	_, err := (&Node{Plugins: n.plugins}).Fetch(ctx, waitingTask(func(reason string) {
		waits = append(waits, reason)
		cancel()
	}))
	if want := []string{`plugin "slow" for secret "s" has not answered yet`}; !errors.Is(err, context.Canceled) || !slices.Equal(waits, want) {
		t.Errorf("error %v, reasons %q", err, waits)
	}
}

// waitingTask is a task with a block of the plugin slow.
func waitingTask(waits func(string)) *Task {
	return &Task{Secrets: []*nomad.Secret{{Name: "s", Provider: "slow", Path: "p"}}, Env: environment(), Waits: waits}
}

// A plugin cannot read or write what is not its own.
func TestPlugin_Confined(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n := newNode(t)
	state := filepath.Dir(n.plugins.runs)
	for name, try := range map[string]string{
		"files of the agent":     "cat " + filepath.Join(state, "token"),
		"a write":                "echo x > /var/tmp/secret-plugin-test",
		"its own file":           "echo x > " + filepath.Join(n.dir, "tries"),
		"processes of others":    fmt.Sprintf("cat /proc/%d/environ", os.Getpid()),
		"a signal":               fmt.Sprintf("kill -9 %d", os.Getppid()),
		"a mount":                "mount -t tmpfs none /tmp",
		"a device":               "cat /dev/mem",
		"sockets of the machine": "ls /run/* | grep .",
		"root":                   "test $(id -u) = 0",
		"capabilities":           "grep CapEff /proc/self/status | grep -v 0000000000000000",
		"a large file":           "head -c 20000000 /dev/zero > /tmp/x",
		"many processes":         "for i in $(seq 200); do sleep 5 & done 2>/dev/null; test $(ls -d /proc/[0-9]* | wc -l) -gt 150",
	} {
		n.script("tries", "if ( "+try+" ) >/dev/null 2>&1; then echo '{\"result\": {\"done\": \"yes\"}}'; else echo '{\"result\": {\"done\": \"no\"}}'; fi")
		got, err := n.fetch("tries", nil)
		if err == nil && got["s.done"] != "no" {
			t.Errorf("%s: %q: a plugin can do it", name, got)
		}
	}
	n.script("may", `echo x > /tmp/own && cat /etc/passwd > /dev/null && echo '{"result": {"done": "yes"}}'`)
	if got, err := n.fetch("may", nil); err != nil || got["s.done"] != "yes" {
		t.Errorf("its own directory: %q, %v", got, err)
	}
}

func TestFingerprint(t *testing.T) {
	n := newNode(t)
	n.script("good", `test "$1:$CPI_OPERATION:$(env | grep -c NOMAD)" = fingerprint:fingerprint:0 && echo '{"type": "secrets", "version": "1.2.3"}'; echo x >&2`)
	n.script("other-type", `echo '{"type": "x", "version": "1.2.3"}'`)
	n.script("no-version", `echo '{"type": "secrets"}'`)
	n.script("hostile-version", `echo '{"type": "secrets", "version": "1.0 ${x}"}'`)
	n.script("junk", `echo x`)
	n.script("nomad", `echo '{"type": "secrets", "version": "9.9.9"}'`)
	n.script("bad}name", `echo '{"type": "secrets", "version": "9.9.9"}'`)
	n.script("flood", "exec cat /dev/zero")
	if got, want := fmt.Sprint(n.plugins.Fingerprint(t.Context())),
		"map[plugins.secrets.good.version:1.2.3 plugins.secrets.nomad.version:1.0.0 plugins.secrets.vault.version:1.0.0]"; got != want {
		t.Errorf("Fingerprint() = %s, want %s; log %s", got, want, n.log.String())
	}
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	if got := n.plugins.Fingerprint(t.Context()); len(got) != 2 {
		t.Errorf("Fingerprint() = %v without a directory", got)
	}
}
