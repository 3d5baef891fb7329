package exec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const nobodyUID = 65534

// TestUnprivileged checks an agent without root. As root it runs itself again as nobody.
func TestUnprivileged(t *testing.T) {
	unprivileged(t, testkernel.Kernel{}, "baseline", "limits (a control group of its own, with limits); user (a user that only this task has)")
}

// TestUnprivilegedAlone is the same without user namespaces.
func TestUnprivilegedAlone(t *testing.T) {
	unprivileged(t, testkernel.Kernel{NoUserNamespaces: true}, "host",
		"namespaces (its own mount, PID and IPC namespaces); limits (a control group of its own, with limits); user (a user that only this task has)")
}

func unprivileged(t *testing.T, k testkernel.Kernel, want, lacks string) {
	t.Helper()
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		k.Rerun(t, nobodyUID, "")
		return
	}
	f := fixtureAt(t, nil)
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthUnhealthy ||
		!strings.Contains(got.Description, "allow_unprivileged") || !strings.Contains(got.Description, "uid") {
		t.Errorf("fingerprint = %+v, want unhealthy with what is missing and how to allow it", got)
	}
	if _, err := f.StartTask(t.Context(), f.task("/bin/true")); err == nil {
		t.Error("StartTask() = nil, want an error: allow_unprivileged is not set")
	}
	if err := f.SetConfig(cty.ObjectVal(settings{"allow_unprivileged": cty.True, "unveil_by_task": cty.True})); err != nil {
		t.Fatal(err)
	}
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthHealthy ||
		!strings.Contains(got.Description, "missing (allowed by allow_unprivileged)") {
		t.Errorf("fingerprint = %+v, want healthy with what is missing", got)
	}
	if got, missing := level(t, f.Driver); got != want || missing != lacks {
		t.Errorf("level = %s, lacks %q, want %s for want of %s", got, missing, want, lacks)
	}
	own := !strings.Contains(lacks, "namespaces")
	if f.Capabilities().Mounts != own || f.Capabilities().Networks != nil {
		t.Errorf("capabilities = %+v, want mounts %t and no networks", f.Capabilities(), own)
	}
	if out := f.run(sh(f, "echo number $$")); strings.Contains(out.Stdout, "number 2\n") != own {
		t.Errorf("the task prints %q, own PID namespace: %t", out.Stdout, own)
	}
	sessionsOfUnprivileged(t, f)
	if own {
		ownFiles(t, f)
		agentHidden(t, f)
		ownHidden(t, f)
		othersHidden(t, f)
		f.run(sh(f, "echo kept; echo forged > $NOMAD_ALLOC_DIR/logs/web.stdout.0")).Want(t, 2, "kept\n")
	} else {
		all := sh(f, "true")
		unveil(all.Config.AsValueMap(), "r:/", func(v cty.Value) { all.Config = v })
		if _, err := f.StartTask(t.Context(), all); err == nil || !strings.Contains(err.Error(), "agent's own files") {
			t.Errorf("StartTask() with / unveiled = %v, want a refusal: nothing would hide the agent's files", err)
		}
		ipc := f.run(f.probeTask("shm", "0"))
		ipc.Want(t, 0, "operation not permitted")
	}
	other := sh(f, "true")
	secret := filepath.Join(other.SecretsDir, "token")
	if err := os.WriteFile(secret, []byte("other's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secret, "/etc/passwd"} {
		if out := f.run(f.task("/bin/cat", path)); out.ExitCode == 0 || out.Stdout != "" {
			t.Errorf("cat %s: exit %d, stdout %q, want a refusal", path, out.ExitCode, out.Stdout)
		}
	}
	f.run(sh(f, "echo hello > $NOMAD_SECRETS_DIR/f && cat $NOMAD_SECRETS_DIR/f > /dev/stdout; exit 5")).Want(t, 5, "hello\n")
	f.run(f.probeTask("userns")).Want(t, 0, "operation not permitted")
	asDeclared(t, f, sh(f, "exec sleep 60"))
	sessionsAsDeclared(t, f, own)
	deaf := fixtureAt(t, settings{"allow_unprivileged": cty.True, "explain_denials": cty.StringVal("audit")})
	if got := fingerprint(t, deaf.Driver).Attributes["driver.exec2.explain_denials"]; got != "off" {
		t.Errorf("explain_denials is %q for an agent that may not read the kernel's records", got)
	}
	deaf.run(sh(deaf, "true")).Want(t, 0, "")
	named := sh(f, "true")
	named.User = "root"
	if _, err := f.StartTask(t.Context(), named); err == nil {
		t.Error("StartTask(user root) = nil, want an error")
	}
}

// othersHidden runs a task next to another one of its allocation. Both have the user of the agent, so only the sandbox
// separates them, also in /tmp, of which each task has its own.
func othersHidden(t *testing.T, f *fixture) {
	t.Helper()
	if !strings.HasPrefix(f.dir, "/tmp/") {
		t.Errorf("the allocations are in %s, want a directory in /tmp", f.dir)
	}
	cfg := sh(f, "cat ../neighbour/secrets/own $NOMAD_ALLOC_DIR/shared; echo x > ../neighbour/secrets/planted; ls ../neighbour")
	for name, text := range map[string]string{"neighbour/secrets/own": "neighbour's", "alloc/shared": "of all"} {
		at := filepath.Join(cfg.AllocDir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out := f.run(cfg); out.ExitCode == 0 || out.Stdout != "of all" {
		t.Errorf("next to another task: exit %d, stdout %q, want the shared file only", out.ExitCode, out.Stdout)
	}
	if _, err := os.Stat(filepath.Join(cfg.AllocDir, "neighbour/secrets/planted")); err == nil {
		t.Error("the task wrote into the directory of another task")
	}
}

// sessionsOfUnprivileged runs a session in a task: it has the same namespaces and restrictions.
func sessionsOfUnprivileged(t *testing.T, f *fixture) {
	t.Helper()
	cfg, pid := f.living("r:/proc")
	for _, ns := range []string{"ipc", "mnt", "pid", "user"} {
		want, err := os.Readlink("/proc/" + pid + "/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := f.session(cfg.ID, "readlink /proc/self/ns/"+ns, false); strings.TrimSpace(got) != want {
			t.Errorf("in the session, namespace %s is %s, want %s", ns, got, want)
		}
	}
	code, out, errs := f.session(cfg.ID,
		"grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status; unshare -U true; cat /etc/passwd", false)
	for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(out, want) {
			t.Errorf("in the session: %q, want %q", out, want)
		}
	}
	if code == 0 || strings.Contains(out, "root:") {
		t.Errorf("in the session: code %d, %q, %q: a refused file was read", code, out, errs)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

// ownFiles checks /tmp and /proc of a task with its own namespaces.
func ownFiles(t *testing.T, f *fixture) {
	t.Helper()
	cfg := sh(f, "echo x > /tmp/mine && ls /tmp && cat /proc/self/uid_map; [ -e /proc/1 ] && echo seen; mkdir /tmp/m && ! mount -t tmpfs none /tmp/m && echo refused; exit 3")
	block := cfg.Config.AsValueMap()
	block["unveil"] = list([]string{"r:/proc"})
	cfg.Config = cty.ObjectVal(block)
	out := f.run(cfg)
	out.Want(t, 3, "mine\n     65534      65534          1\n")
	if strings.Contains(out.Stdout, "seen\n") || !strings.Contains(out.Stdout, "refused\n") {
		t.Errorf("stdout %q, stderr %q: init is seen or a mount went through", out.Stdout, out.Stderr)
	}
	if _, err := os.Stat(filepath.Join(cfg.TaskDir, "tmp", "mine")); err != nil {
		t.Errorf("what the task wrote to /tmp is not in its own directory: %v", err)
	}
}
