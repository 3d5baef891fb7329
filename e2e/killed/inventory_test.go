package killed_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInventory creates one thing of each kind, and finds its name in the inventory.
func TestInventory(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	run := func(args ...string) func() error {
		return func() error {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				err = errors.Join(err, errors.New(string(out)))
			}
			return err
		}
	}
	file := func(path string) (create, remove func() error) {
		return func() error {
				return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600))
			},
			func() error { return os.Remove(path) }
	}
	mountpoint := filepath.Join(f.dir, "mountpoint")
	if err := os.Mkdir(mountpoint, 0o700); err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep")
	sleep.Args = []string{f.dir + "/sleep", "3600"}
	scope := filepath.Join("/sys/fs/cgroup", f.slice, "planted.scope")
	if roots := f.groups(); len(roots) > 0 {
		scope = filepath.Join(strings.TrimPrefix(roots[0], "control group: "), "planted.scope")
	}
	const set = "bridge open_nomad_kill-one planted"
	type thing struct {
		want           string
		create, remove func() error
	}
	things := []thing{
		{f.dir + "/sleep 3600", sleep.Start, func() error { _ = sleep.Process.Kill(); _ = sleep.Wait(); return nil }}, // killed by a signal
		{"mount of the node: " + mountpoint, func() error {
			return unix.Mount("tmpfs", mountpoint, "tmpfs", 0, "size=4k")
		}, func() error { return unix.Unmount(mountpoint, 0) }},
		{"control group: " + scope, func() error { return os.Mkdir(scope, 0o755) }, func() error { return os.Remove(scope) }},
		{"rule of iptables *filter -A NOMAD-ADMIN -s 192.0.2.1/32 -j DROP",
			run("iptables", "-w", "-A", "NOMAD-ADMIN", "-s", "192.0.2.1", "-j", "DROP"),
			run("iptables", "-w", "-D", "NOMAD-ADMIN", "-s", "192.0.2.1", "-j", "DROP")},
		{"rule of ip6tables *filter -A NOMAD-ADMIN -s 2001:db8::1/128 -j DROP",
			run("ip6tables", "-w", "-A", "NOMAD-ADMIN", "-s", "2001:db8::1", "-j", "DROP"),
			run("ip6tables", "-w", "-D", "NOMAD-ADMIN", "-s", "2001:db8::1", "-j", "DROP")},
		{"rule of nftables, table bridge open_nomad_kill-one: set planted",
			run(strings.Fields("nft add set " + set + " { type ifname ; }")...), run(strings.Fields("nft delete set " + set)...)},
		{"interface: planted", run("ip", "link", "add", "planted", "type", "bridge"), run("ip", "link", "del", "planted")},
	}
	for kind, path := range map[string]string{
		"address":                    "/run/cni/nomad/172.27.0.99",
		"network namespace":          filepath.Join(n.data, "client/netns/planted"),
		"record of a network":        filepath.Join(n.data, "client/network/planted.json"),
		"result of a plugin":         filepath.Join(n.data, "client/network/results/planted"),
		"record of a task":           filepath.Join(n.data, "client/supervise/tasks/planted"),
		"CSI volume of a task":       filepath.Join(n.data, "client/csi/mounted/a1/planted"),
		"published CSI volume":       filepath.Join(n.data, "client/csi/node/p/per-alloc/a1/planted"),
		"staged CSI volume":          filepath.Join(n.data, "client/csi/node/p/staging/default/planted"),
		"directory of an allocation": filepath.Join(n.data, "alloc/planted"),
		"directory of a volume":      filepath.Join(n.volumes, "planted"),
	} {
		create, remove := file(path)
		things = append(things, thing{kind + ": " + path, create, remove})
	}
	before := f.inventory()
	for _, c := range things {
		t.Run(c.want, func(t *testing.T) {
			if err := c.create(); err != nil {
				t.Fatal(err)
			}
			more := without(f.inventory(), before)
			if err := c.remove(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(more, "\n"), c.want) {
				t.Errorf("inventory has in addition %q, want %q", more, c.want)
			}
			if now := f.inventory(); len(without(now, before)) > 0 || len(without(before, now)) > 0 {
				t.Errorf("afterwards it has in addition %q and lacks %q", without(now, before), without(before, now))
			}
		})
	}
	// What the servers have.
	n.volume("planted")
	f.run("planted", group{static: staticPort, volume: "planted"}.text())
	al := f.allocOf("planted", "running", "")
	n.runs(al)
	more := strings.Join(without(f.inventory(), before), "\n")
	for _, want := range []string{"allocation " + al.ID + " of planted", "registration of service web-21900: ",
		"volume planted: ", "claim of planted on volume planted: ",
		"process ", "mount of the node: ", "rule of iptables *nat ", "interface: veth"} {
		if !strings.Contains(more, want) {
			t.Errorf("inventory has in addition %s\nwant %q", more, want)
		}
	}
	f.purge()
	n.remove(n.find("planted"))
	f.nothingLeft(before)
}
