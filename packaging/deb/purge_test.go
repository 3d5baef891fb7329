package deb_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stage makes the file system read-only in a mount namespace of its own, but for an empty /var.
const stage = `set -e
mount --make-rprivate /
mount -o remount,bind,ro /
mount -t tmpfs purge /var
mkdir /var/real /var/real/nomad /var/kept
echo kept >/var/kept/file
echo state >/var/real/nomad/state
`

// shareCSI mounts the directory of CSI volumes as an agent does.
const shareCSI = "mkdir -p /var/lib/nomad/client/csi; mount --bind /var/lib/nomad/client/csi /var/lib/nomad/client/csi; " +
	"mount --make-shared /var/lib/nomad/client/csi"

// A purge removes no file of a file system that is mounted below the state of the client, and does not fail
// where the state is a mountpoint. The script runs in a mount namespace.
func TestPurgeAndMounts(t *testing.T) {
	if os.Geteuid() != 0 || exec.Command("unshare", "-m", "mount", "--make-rprivate", "/").Run() != nil {
		t.Skip("needs root and mount namespaces")
	}
	for _, dir := range []string{"/etc/nomad.d", "/run/systemd/system"} {
		if _, err := os.Stat(dir); err == nil {
			t.Skipf("%s exists: the script would act on this machine", dir)
		}
	}
	postrm, err := filepath.Abs("postrm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"directory", "mv /var/real /var/lib", "[ ! -e /var/lib/nomad ]", "removes /var/lib/nomad"},
		{"mount", "mv /var/real /var/lib; mkdir /var/lib/nomad/m; mount --bind /var/kept /var/lib/nomad/m", "[ -e /var/kept/file ]",
			"keeps /var/lib/nomad: tasks"},
		{"mount below a link", "ln -s real /var/lib; mkdir /var/real/nomad/m; mount --bind /var/kept /var/real/nomad/m",
			"[ -e /var/kept/file ]", "keeps /var/lib/nomad: tasks"},
		{"CSI without volumes", "mv /var/real /var/lib; " + shareCSI, "[ ! -e /var/lib/nomad ]", "removes /var/lib/nomad"},
		{"CSI with a volume", "mv /var/real /var/lib; " + shareCSI + "; mkdir /var/lib/nomad/client/csi/v; mount --bind /var/kept /var/lib/nomad/client/csi/v",
			"[ -e /var/kept/file ]", "keeps /var/lib/nomad: tasks"},
		{"CSI beside a task", "mv /var/real /var/lib; " + shareCSI + "; mkdir /var/lib/nomad/m; mount --bind /var/kept /var/lib/nomad/m",
			"[ -e /var/kept/file ] && mountpoint -q /var/lib/nomad/client/csi", "keeps /var/lib/nomad: tasks"},
		{"mountpoint", "mkdir -p /var/lib/nomad; mount -t tmpfs state /var/lib/nomad; touch /var/lib/nomad/state",
			"[ ! -e /var/lib/nomad/state ]", "keeps the mountpoint /var/lib/nomad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", stage+c.before+"\nsh "+postrm+" purge\n"+
				c.after).CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
		})
	}
}
