package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testcsi"
	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// commands are the script commands in addition to those of testscript.
//
//	agent NAME [flags]       starts a lean `nomad agent` with flags and waits until it is ready; sets
//	                         NOMAD_ADDR, NAME_rpc and NAME_serf (host:port). A name that was killed
//	                         or stopped starts again where it was. With NOMAD_TOKEN, a UUID, its
//	                         first ACL token is made with that secret.
//	kill-agent NAME          ends it with SIGKILL: its tasks stay
//	stop-agent NAME          ends it with SIGTERM and waits
//	until DURATION CMD ARG…  runs a command until it succeeds: for so long, and longer on a machine
//	                         that is busy
//	pick VAR FILE PATH       sets VAR to the value at a dotted PATH of a JSON file, 0.ID for the
//	                         ID of the first of a list
//	serve DIR                serves the files of a directory by HTTP and sets SERVED to its URL
//	consul                   starts a stand-in of Consul's agent with ACLs; sets CONSUL_HTTP_ADDR and
//	                         CONSUL_HTTP_TOKEN, a token with all rights
//	vault [FAULT…]           starts a stand-in of Vault; sets VAULT_ADDR, VAULT_TOKEN, with all rights, and JWKS,
//	                         the URL of a set of keys. The script must cause each FAULT, a part of an error
//	csi-plugin               builds the example of a CSI plugin and sets CSI_PLUGIN to its path, and CSI_DATA to a
//	                         directory for the agent, with a path that is short enough for the sockets of plugins
//	code N CMD ARG…          runs a command that must end with exit code N
//	golden NAME [REGEXP…]    compares the output of the last command with testdata/golden/NAME.txt;
//	                         what differs between runs, and what a REGEXP matches, is replaced
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"agent":      startAgent,
	"kill-agent": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(running(ts, args).Kill()) },
	"stop-agent": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(running(ts, args).Stop()) },
	"until":      until,
	"pick":       pick,
	"golden":     golden,
	"code":       code,
	"serve":      serveFiles,
	"consul":     startConsul,
	"vault":      startVault,
	"csi-plugin": buildCSIPlugin,
}

// agents holds the agents of one script, by name.
type agents struct {
	mu sync.Mutex
	of map[string]*cluster.Agent // guarded by mu
}

type agentsKey struct{}

func setup(env *testscript.Env) error {
	all := &agents{of: map[string]*cluster.Agent{}}
	env.Values[agentsKey{}] = all
	dir, err := filepath.Abs(goldenDir)
	if err != nil {
		return err
	}
	env.Values[goldenKey{}] = dir
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("TZ", "UTC")
	env.Setenv("GOGC", "off") // commands are short; agents do not inherit it
	env.Defer(func() {
		for _, a := range all.of {
			a.Stop() // no error if a script stopped it already
		}
	})
	return nil
}

// condition adds [root] to the conditions of testscript.
func condition(cond string) (bool, error) {
	if cond == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

func startAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: agent NAME [flags]")
	}
	bin, err := exec.LookPath("nomad")
	ts.Check(err)
	log, err := os.OpenFile(ts.MkAbs(args[0]+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	all := ts.Value(agentsKey{}).(*agents)
	o := cluster.Options{Bin: bin, Dir: ts.MkAbs(args[0]), Args: args[1:], Log: log, Lean: true, Secret: ts.Getenv("NOMAD_TOKEN")}
	if before := all.of[args[0]]; before != nil {
		o.HTTP, o.RPC, o.Serf = before.HTTP, before.RPC, before.Serf
	}
	a, err := cluster.Start(context.Background(), o)
	if err != nil {
		ts.Logf("%s", ts.ReadFile(args[0]+".log"))
		ts.Fatalf("agent %s: %v", args[0], err)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.of[args[0]] = a
	ts.Setenv("NOMAD_ADDR", a.Address())
	ts.Setenv(args[0]+"_rpc", "127.0.0.1:"+strconv.Itoa(a.RPC))
	ts.Setenv(args[0]+"_serf", "127.0.0.1:"+strconv.Itoa(a.Serf))
}

// testKey is the key of the test of all scripts.
type testKey struct{}

func startConsul(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: consul")
	}
	a := testconsul.Start(ts.Value(testKey{}).(*testing.T), testconsul.Config{ACL: true, Manual: true})
	ts.Setenv("CONSUL_HTTP_ADDR", a.Addr())
	ts.Setenv("CONSUL_HTTP_TOKEN", a.Management())
}

func startVault(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: vault [FAULT…]")
	}
	t := ts.Value(testKey{}).(*testing.T)
	v := testvault.Start(t, testvault.Config{})
	for _, fault := range args {
		v.Expect(fault)
	}
	ts.Setenv("VAULT_ADDR", v.Addr())
	ts.Setenv("VAULT_TOKEN", v.Root())
	idp := testidp.New(t)
	ts.Check(os.WriteFile(ts.MkAbs("jwks.pem"), []byte(idp.CA), 0o600))
	ts.Setenv("JWKS", idp.URL+"/keys")
}

func running(ts *testscript.TestScript, args []string) *cluster.Agent {
	if len(args) != 1 {
		ts.Fatalf("give the name of one agent")
	}
	a := ts.Value(agentsKey{}).(*agents).of[args[0]]
	if a == nil {
		ts.Fatalf("no agent %q was started", args[0])
	}
	return a
}

// tryAgain is the retry interval of until. A command takes a tenth of a second of CPU time.
const tryAgain = 200 * time.Millisecond

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until DURATION CMD [ARG…]")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	limit = max(limit, harness.Patience)
	over := time.After(limit)
	tick := time.NewTicker(tryAgain)
	defer tick.Stop()
	for {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil {
			return
		}
		select {
		case <-over:
			ts.Fatalf("%s did not succeed in %s: %v", strings.Join(args[1:], " "), limit, err)
		case <-tick.C:
		}
	}
}

func pick(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: pick VAR FILE PATH")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	for _, key := range strings.Split(args[2], ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				ts.Fatalf("%s: no element %q in a list of %d", args[1], key, len(node))
			}
			v = node[i]
		default:
			ts.Fatalf("%s: nothing at %q", args[1], key)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// serveFiles serves the files of a directory on a loopback address until the script ends.
func serveFiles(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve DIR")
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(srv.Close)
	ts.Setenv("SERVED", srv.URL)
}

// buildCSIPlugin builds e2e/examplecsi.
func buildCSIPlugin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: csi-plugin")
	}
	t := ts.Value(testKey{}).(*testing.T)
	ts.Setenv("CSI_PLUGIN", testcsi.Build(t))
	data, err := os.MkdirTemp("", "csi")
	ts.Check(err)
	ts.Check(os.Chmod(data, 0o711)) // tasks have other users
	ts.Defer(func() {               // of a script that failed: a plugin outlives its agent
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for name, a := range ts.Value(agentsKey{}).(*agents).of {
			if err := a.Purge(ctx); err != nil {
				t.Errorf("stop the jobs of agent %s: %v", name, err)
			}
		}
	})
	t.Cleanup(func() {
		// An agent with volumes keeps this mount, so that they survive its restart. It is busy if a volume is left.
		err := unix.Unmount(filepath.Join(data, "client", "csi"), unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // not mounted, not used
			t.Errorf("unmount the directory of CSI volumes: %v", err)
		}
		harness.RemoveAll(t, data)
	})
	ts.Setenv("CSI_DATA", data)
}
