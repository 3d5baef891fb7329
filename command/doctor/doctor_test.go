package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// write writes a file below a directory.
func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// text returns findings as lines.
func text(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s → %s\n", f.Status, f.Found, f.Remedy)
	}
	return b.String()
}

// expect checks that there is a finding with a status and a text.
func expect(t *testing.T, all []Finding, status Status, part string) {
	t.Helper()
	for _, f := range all {
		if f.Status == status && strings.Contains(f.Found, part) {
			if status == Fail && f.Remedy == "" {
				t.Errorf("%q has no remedy", f.Found)
			}
			return
		}
	}
	t.Errorf("no finding %s with %q in\n%s", status, part, text(all))
}

// configured returns a machine with a configuration.
func configured(t *testing.T, config string) *machine {
	t.Helper()
	m := inspect(t.Context(), []string{write(t, t.TempDir(), "agent.hcl", config, 0o600)})
	if m.fault != nil {
		t.Fatal(m.fault)
	}
	return m
}

func TestKernelAndLandlock(t *testing.T) {
	for _, c := range []struct {
		version, abi     string
		kernel, landlock Status
	}{
		{"6.18.4-cloud", "v7", OK, OK}, {"6.1.0-12-amd64", "v2", OK, Warn}, {"5.10.0", "", Fail, Fail}, {"5.4.0", "", Fail, Fail},
		{"strange", "v6", Warn, OK},
	} {
		m := &machine{attributes: map[string]string{"kernel.version": c.version, "kernel.landlock": c.abi}}
		if got := kernel(t.Context(), m); got[0].Status != c.kernel {
			t.Errorf("kernel %s: %s", c.version, text(got))
		}
		if got := landlockABI(t.Context(), m); got[0].Status != c.landlock {
			t.Errorf("Landlock %q: %s", c.abi, text(got))
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close() // not an agent
		}
	}()
	m := configured(t, fmt.Sprintf("data_dir = \"/nowhere\"\nbind_addr = \"127.0.0.1\"\nserver {\n enabled = true\n"+
		" bootstrap_expect = 1\n}\nports {\n http = %d\n rpc = 0\n serf = 0\n}\n", l.Addr().(*net.TCPAddr).Port))
	m.settings.Ports.RPC, m.settings.Ports.Serf = 0, 0
	got := ports(t.Context(), m)
	expect(t, got, Fail, "in use by another program")
	expect(t, got, OK, "rpc 127.0.0.1:0: free")
	m.settings.Addresses.RPC = "192.0.2.77"
	expect(t, ports(t.Context(), m), Fail, "not an address of this machine")
}

func TestServers(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := func(list string) *machine {
		return configured(t, "data_dir = \"/nowhere\"\nclient {\n enabled = true\n servers = ["+list+"]\n}\n")
	}
	m := config(fmt.Sprintf("%q", l.Addr()))
	expect(t, servers(t.Context(), m), OK, "reachable in")
	l.Close()
	expect(t, servers(t.Context(), m), Fail, "connection refused")
	expect(t, servers(t.Context(), config("")), Fail, "the client has no servers")
}

func TestClockOffset(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		there, took time.Duration
		want        Status
	}{
		{0, 0, OK}, {2 * time.Second, 0, OK}, {-3 * time.Second, 10 * time.Millisecond, OK}, {10 * time.Second, 0, Warn},
		{-10 * time.Second, 0, Warn},
		{10 * time.Second, 20 * time.Second, OK}, {time.Minute, 0, Fail}, {-time.Hour, time.Second, Fail},
	} {
		if got := offset("s", now, now.Add(c.there), c.took); got.Status != c.want {
			t.Errorf("offset %s, took %s: %s, want %s", c.there, c.took, text([]Finding{got}), c.want)
		}
	}
}

func TestDisk(t *testing.T) {
	const gib = 1 << 30 / 4096
	for _, c := range []struct {
		name         string
		st           unix.Statfs_t
		space, nodes Status
	}{
		{"empty", unix.Statfs_t{Bsize: 4096, Blocks: 10 * gib, Bfree: 9 * gib, Bavail: 9 * gib, Files: 100, Ffree: 90}, OK, OK},
		{"threshold", unix.Statfs_t{Bsize: 4096, Blocks: 10 * gib, Bfree: gib, Bavail: gib, Files: 100, Ffree: 20}, Warn, Warn},
		{"full", unix.Statfs_t{Bsize: 4096, Blocks: 10 * gib, Files: 100}, Fail, Fail},
		{"no inode limit", unix.Statfs_t{Bsize: 4096, Blocks: 10 * gib, Bfree: 9 * gib, Bavail: 9 * gib}, OK, ""},
	} {
		got := usage("/data", &c.st, 80, 70)
		if got[0].Status != c.space || c.nodes == "" && len(got) != 1 || c.nodes != "" && got[1].Status != c.nodes {
			t.Errorf("%s:\n%s", c.name, text(got))
		}
	}
	if got := existing("/proc/nowhere/below"); got != "/proc" {
		t.Errorf("existing() = %q", got)
	}
}

func TestCertificates(t *testing.T) {
	ca := testpki.New(t)
	config := func(days int, at time.Time) *machine {
		f := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true, Client: true, Days: days, At: at})
		return configured(t, fmt.Sprintf("data_dir = \"/nowhere\"\nserver {\n enabled = true\n bootstrap_expect = 1\n}\ntls {\n"+
			" rpc = true\n http = true\n verify_server_hostname = true\n ca_file = %q\n cert_file = %q\n key_file = %q\n}\n", f.CA, f.Cert, f.Key))
	}
	now := time.Now()
	expect(t, certificates(t.Context(), config(300, now)), OK, "valid until")
	expect(t, certificates(t.Context(), config(10, now)), Warn, "expires on")
	got := expiry("certificate", now.Add(-time.Hour), now, "replace it")
	if got.Status != Fail {
		t.Errorf("an expired certificate: %s", text([]Finding{got}))
	}
	m := config(300, now)
	if err := os.Chmod(m.settings.TLS.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, fileModes(t.Context(), m), Fail, "others can act as this agent")
	m.settings.TLS.KeyFile = "/nowhere/key.pem"
	expect(t, certificates(t.Context(), m), Fail, "/nowhere/key.pem")
	expect(t, certificates(t.Context(), configured(t, "data_dir = \"/nowhere\"\nserver {\n enabled = true\n bootstrap_expect = 1\n}\n")),
		Warn, "TLS is off")
}

func TestFileModes(t *testing.T) {
	data := t.TempDir()
	write(t, data, "server/keystore/key", "x", 0o600)
	for dir, mode := range map[string]os.FileMode{"": 0o755, "server": 0o700, "server/keystore": 0o750} {
		if err := os.Chmod(filepath.Join(data, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	m := configured(t, fmt.Sprintf("data_dir = %q\nserver {\n enabled = true\n bootstrap_expect = 1\n}\n", data))
	got := fileModes(t.Context(), m)
	expect(t, got, Fail, "keystore has mode 0750: others can read the root keys")
	expect(t, got, OK, "server: mode 0700")
	if err := os.Chmod(m.paths[0], 0o666); err != nil {
		t.Fatal(err)
	}
	expect(t, fileModes(t.Context(), m), Fail, "others can change what the agent does")
}

func TestSystemd(t *testing.T) {
	root := t.TempDir()
	m := &machine{root: root}
	expect(t, systemd(t.Context(), m), OK, "does not run here")
	write(t, root, "proc/1/comm", "systemd\n", 0o644)
	expect(t, systemd(t.Context(), m), Warn, "no unit runs")
	unit := "[Service]\n# ExecStart=/bin/true\nExecStart=/usr/bin/nomad agent -config=/etc/nomad.d\n"
	write(t, root, "usr/lib/systemd/system/nomad.service", unit, 0o644)
	write(t, root, "usr/lib/systemd/system/other.service", "[Service]\nExecStart=/usr/bin/other agent\n", 0o644)
	got := systemd(t.Context(), m)
	expect(t, got, Fail, "nomad.service: KillMode is control-group, the default: a restart of the agent kills the tasks")
	expect(t, got, Warn, "nomad.service: a crashed agent is not started again")
	write(t, root, "etc/systemd/system/nomad.service.d/10.conf", "[Service]\nKillMode=process\nRestart=on-failure\n", 0o644)
	if got := systemd(t.Context(), m); len(got) != 1 {
		t.Errorf("findings:\n%s", text(got))
	}
	expect(t, systemd(t.Context(), m), OK, "KillMode=process Restart=on-failure")
	write(t, root, "etc/systemd/system/nomad.service", unit+"KillMode=mixed\nPrivateTmp=yes\n", 0o644)
	write(t, root, "etc/systemd/system/nomad.service.d/10.conf", "[Service]\n", 0o644)
	got = systemd(t.Context(), m)
	expect(t, got, Fail, "KillMode is mixed")
	expect(t, got, Fail, "PrivateTmp")
}

func TestCNI(t *testing.T) {
	at := map[string]string{}
	m := &machine{attributes: at}
	expect(t, cniPlugins(t.Context(), m), Warn, "no CNI plugins")
	at["plugins.cni.version.bridge"] = "1.6.2"
	expect(t, cniPlugins(t.Context(), m), Warn, "missing: firewall, host-local, loopback, portmap; found: bridge 1.6.2")
	for _, name := range neededPlugins {
		at["plugins.cni.version."+name] = "1.6.2"
	}
	expect(t, cniPlugins(t.Context(), m), OK, "portmap 1.6.2")
	at["network.cni.error"] = "bad file"
	expect(t, cniPlugins(t.Context(), m), Warn, "bad file")
}

// Each error of a configuration is a finding of its own.
func TestConfiguration(t *testing.T) {
	m := inspect(t.Context(), []string{write(t, t.TempDir(), "agent.hcl",
		"server {\n enabled = true\n}\nports {\n http = 70000\n rpc = 70001\n}\n", 0o600)})
	got := configuration(t.Context(), m)
	expect(t, got, Fail, "ports.http")
	expect(t, got, Fail, "ports.rpc")
	m = configured(t, "data_dir = \"/nowhere\"\nclient {\n enabled = true\n options = {\n  \"no.such\" = \"1\"\n }\n}\n")
	got = configuration(t.Context(), m)
	expect(t, got, OK, `valid, client of region "global"`)
	expect(t, got, Warn, `"no.such" is not read`)
	if all := examine(t.Context(), m, []string{"config"}); len(all) != 2 || all[0].Check != "config" {
		t.Errorf("examine() = %s", text(all))
	}
	// A check that waits ends with its context.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	examine(ctx, configured(t, "data_dir = \"/nowhere\"\nclient {\n enabled = true\n servers = [\"192.0.2.1\"]\n}\n"), nil)
}
