package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// inGroup gives a task the network of a group and the files of the client.
func (f *fixture) inGroup(cfg *drivers.TaskConfig, targets ...string) {
	f.t.Helper()
	n, err := f.CreateNetwork(f.t.Context(), cfg.AllocID, "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := f.DestroyNetwork(context.WithoutCancel(f.t.Context()), cfg.AllocID, n); err != nil {
			f.t.Error(err)
		}
	})
	cfg.NetNS, cfg.NetLabels = n.Path, n.Labels
	if err := os.MkdirAll(filepath.Join(cfg.TaskDir, "private"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	for target, text := range map[string]string{"/etc/hosts": "127.0.0.1 localhost\n192.0.2.1 of-group\n", "/etc/resolv.conf": "nameserver 192.0.2.53\n"} {
		for _, wanted := range targets {
			if wanted == target {
				f.write(filepath.Join(cfg.TaskDir, "private"), filepath.Base(target), text)
				cfg.Files = append(cfg.Files, drivers.HostFile{Name: "web/private/" + filepath.Base(target), Target: target})
			}
		}
	}
}

// In the network of a group, extra_hosts adds to the hosts file of the group, whose resolver takes precedence. A later
// agent continues the task with the same files.
func TestExtraHostsOfGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("cat /etc/hosts /etc/resolv.conf; echo x >>/etc/hosts; trap 'cat /etc/hosts; exit' TERM; echo ready; while :; do sleep 0.1; done",
		block{"extra_hosts": []any{"db:192.0.2.2", "db6:2001:db8::2"}, "dns_servers": []any{"192.0.2.99"}}))
	f.inGroup(cfg, "/etc/hosts", "/etc/resolv.conf")
	h := f.start(cfg)
	const hosts = "127.0.0.1 localhost\n192.0.2.1 of-group\n192.0.2.2 db\n2001:db8::2 db6\n"
	f.until("the files of the task", cfg, hosts+"nameserver 192.0.2.53\nready\n")
	if text, err := os.ReadFile(filepath.Join(cfg.TaskDir, "private", "hosts")); err != nil || strings.Contains(string(text), "db") {
		t.Errorf("the file of the client is %q, %v", text, err)
	}
	f.Abandon()
	later := f.open(docker.Name, f.config)
	defer later.Abandon()
	if err := later.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := later.SignalTask(cfg.ID, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	f.until("the files after the restart", cfg, hosts+"nameserver 192.0.2.53\nready\n"+hosts)
	if err := later.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

// until waits for an output of a task.
func (f *fixture) until(what string, cfg *drivers.TaskConfig, want string) {
	f.t.Helper()
	testpace.Until(f.t, what, func() bool {
		out, _ := f.output(cfg)
		return out == want
	})
}

// Entries that are not hosts are refused, and a group without a hosts file or a resolver refuses the options.
func TestExtraHostsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		config block
		files  []string
		want   string
	}{
		"no address":        {block{"extra_hosts": []any{"db"}}, []string{"/etc/hosts"}, `invalid hosts entry "db"`},
		"two lines":         {block{"extra_hosts": []any{"db\n192.0.2.3 x:192.0.2.2"}}, []string{"/etc/hosts"}, "invalid hosts entry"},
		"comment":           {block{"extra_hosts": []any{"#db:192.0.2.2"}}, []string{"/etc/hosts"}, "invalid hosts entry"},
		"not an address":    {block{"extra_hosts": []any{"db:host-gateway"}}, []string{"/etc/hosts"}, `invalid IP address "host-gateway"`},
		"lines as address":  {block{"extra_hosts": []any{"db:192.0.2.2\n192.0.2.3 x"}}, []string{"/etc/hosts"}, "invalid IP address"},
		"no hosts file":     {block{"extra_hosts": []any{"db:192.0.2.2"}}, []string{"/etc/resolv.conf"}, "need a network of the task's own"},
		"no resolver":       {block{"dns_servers": []any{"192.0.2.1"}}, []string{"/etc/hosts"}, "need a network of the task's own"},
		"hostname":          {block{"hostname": "x"}, []string{"/etc/hosts"}, "need a network of the task's own"},
		"MAC address":       {block{"mac_address": "02:68:b3:29:da:98"}, []string{"/etc/hosts"}, "need a network of the task's own"},
		"the group's alone": {nil, []string{"/etc/hosts"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("sleep 1000", c.config))
			f.inGroup(cfg, c.files...)
			_, err := f.StartTask(t.Context(), cfg)
			if err == nil {
				defer f.DestroyTask(cfg.ID, true)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
		})
	}
}

// A task that leaves the network of its group has its own hosts file, with its extra_hosts.
func TestExtraHostsOfOwnNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.network("own", "bridge", "198.19.51.0/24")
	cfg := f.task(shell("cat /etc/hosts", block{"network_mode": "own", "extra_hosts": []any{"db:192.0.2.2"}}))
	f.inGroup(cfg, "/etc/hosts")
	f.start(cfg)
	f.wait(cfg.ID)
	if out, errs := f.output(cfg); !strings.Contains(out, "192.0.2.2\tdb") || strings.Contains(out, "of-group") {
		t.Errorf("hosts = %q, %q", out, errs)
	}
}
