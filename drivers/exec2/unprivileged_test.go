package exec2_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const nobody = 65534

// TestUnprivileged is about an agent that is not root. As root it runs itself again
// as nobody.
func TestUnprivileged(t *testing.T) {
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		runAsNobody(t)
		return
	}
	f := fixtureAt(t, nil)
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthUnhealthy ||
		!strings.Contains(got.Description, "allow_unprivileged") || !strings.Contains(got.Description, "uid") {
		t.Errorf("fingerprint = %+v, want unhealthy with what is missing and how to allow it", got)
	}
	if _, err := f.StartTask(t.Context(), f.task("/bin/true")); err == nil {
		t.Error("StartTask() = nil, want an error: nobody allowed a weaker sandbox")
	}
	if err := f.SetConfig(cty.ObjectVal(settings{"allow_unprivileged": cty.True, "unveil_by_task": cty.True})); err != nil {
		t.Fatal(err)
	}
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthHealthy || !strings.Contains(got.Description, "without") {
		t.Errorf("fingerprint = %+v, want healthy with what is missing", got)
	}
	other := sh(f, "true")
	secret := filepath.Join(other.SecretsDir, "token")
	if err := os.WriteFile(secret, []byte("other's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secret, "/etc/passwd"} {
		if out := f.run(f.task("/bin/cat", path)); out.ExitCode == 0 || out.stdout != "" {
			t.Errorf("cat %s: exit %d, stdout %q, want a refusal", path, out.ExitCode, out.stdout)
		}
	}
	f.run(sh(f, "echo hello > $NOMAD_SECRETS_DIR/f && cat $NOMAD_SECRETS_DIR/f > /dev/stdout; exit 5")).want(t, 5, "hello\n")
	f.run(f.probeTask("userns")).want(t, 0, "operation not permitted")
	named := sh(f, "true")
	named.User = "root"
	if _, err := f.StartTask(t.Context(), named); err == nil {
		t.Error("StartTask(user root) = nil, want an error")
	}
}

func runAsNobody(t *testing.T) {
	dir := openDir(t)
	bin, tmp := filepath.Join(dir, "exec2.test"), filepath.Join(dir, "tmp")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, exe, bin)
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestUnprivileged$", "-test.v")
	cmd.Dir, cmd.Env = tmp, []string{"TMPDIR=" + tmp, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "SKIP") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
