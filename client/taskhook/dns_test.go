package taskhook_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
)

// resolving returns the hooks of a task in a network with a dns block, with a driver that
// mounts files.
func resolving(mode string, dns *nomad.DNSConfig) taskhook.Config {
	cfg := config(&nomad.Task{Driver: "exec2", Meta: map[string]string{"corp": "corp.example"}})
	cfg.Capabilities.Mounts = true
	cfg.Alloc.TaskGroup = "g"
	cfg.Alloc.Job.TaskGroups = []*nomad.TaskGroup{{Name: "g", Networks: nomad.Networks{{Mode: mode, DNS: dns}}}}
	return cfg
}

func TestResolvConf(t *testing.T) {
	got, err := prestart(t, resolving("host", &nomad.DNSConfig{
		Servers: []string{"192.0.2.1", "2001:db8::1"}, Searches: []string{"${NOMAD_META_corp}", "x.example"},
		Options: []string{"ndots:2", "rotate"},
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.files) != 1 || got.files[0].Target != "/etc/resolv.conf" {
		t.Fatalf("files = %+v, want a resolv.conf", got.files)
	}
	path := filepath.Join(filepath.Dir(got.dir.Path()), got.files[0].Name)
	text, err := os.ReadFile(path)
	want := "nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch corp.example x.example\noptions ndots:2 rotate\n"
	if string(text) != want || err != nil {
		t.Errorf("resolv.conf = %q, %v, want %q", text, err, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("mode = %v, %v, want 0444", info.Mode(), err)
	}
	if above, err := os.Stat(filepath.Dir(path)); err != nil || above.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v, want 0700", above.Mode(), err)
	}
}

// In network mode none the hosts file has only the names of the loopback interface.
func TestHostsOfNone(t *testing.T) {
	got, err := prestart(t, resolving("none", &nomad.DNSConfig{Servers: []string{"127.0.0.1"}}), nil)
	if err != nil || len(got.files) != 2 || got.files[0].Target != "/etc/hosts" {
		t.Fatalf("files = %+v, %v", got.files, err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(got.dir.Path()), got.files[0].Name))
	if err != nil || !strings.HasPrefix(string(text), "127.0.0.1 localhost") || !strings.Contains(string(text), "\n::1 localhost") {
		t.Errorf("hosts = %q, %v", text, err)
	}
}

func TestNoBlockNoFiles(t *testing.T) {
	cfg := resolving("none", nil)
	cfg.Capabilities.Mounts = false // and the driver need not support it
	if got, err := prestart(t, cfg, nil); err != nil || len(got.files) != 0 {
		t.Errorf("files = %+v, %v", got.files, err)
	}
}

// gateways is a DNS server that listens on these addresses.
type gateways []netip.Addr

func (g gateways) Gateways(context.Context) []netip.Addr { return g }

// A group on the bridge asks the node's DNS server, unless it has a dns block or a list of destinations.
func TestDNSOfTheNode(t *testing.T) {
	server := gateways{netip.MustParseAddr("172.26.64.1")}
	for _, c := range []struct {
		name, mode, want string
		dns              *nomad.DNSConfig
		egress           *nomad.NetworkEgress
		server           taskhook.DNS
	}{
		{name: "bridge", mode: "bridge", server: server, want: "nameserver 172.26.64.1\n"},
		{name: "own block", mode: "bridge", server: server, dns: &nomad.DNSConfig{Servers: []string{"192.0.2.1"}}, want: "nameserver 192.0.2.1\n"},
		{name: "destinations", mode: "bridge", server: server, egress: &nomad.NetworkEgress{}},
		{name: "not bound", mode: "bridge", server: gateways{}},
		{name: "no server", mode: "bridge"},
		{name: "cni", mode: "cni/x", server: server},
		{name: "host", mode: "host", server: server},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := resolving(c.mode, c.dns)
			cfg.Alloc.Job.TaskGroups[0].Networks[0].Egress = c.egress
			cfg.DNS = c.server
			if c.mode != "host" {
				cfg.Alloc.NetworkStatus = &nomad.AllocNetworkStatus{Address: "172.26.64.2"}
			}
			got, err := prestart(t, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			var text string
			for _, f := range got.files {
				if f.Target != "/etc/resolv.conf" {
					continue
				}
				raw, err := os.ReadFile(filepath.Join(filepath.Dir(got.dir.Path()), f.Name))
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			if !strings.HasPrefix(text, c.want) || strings.Count(text, "nameserver") != strings.Count(c.want, "nameserver") {
				t.Errorf("resolv.conf = %q, want it to begin with %q and no other server", text, c.want)
			}
		})
	}
}

func TestDNSFaults(t *testing.T) {
	for _, c := range []struct {
		dns    nomad.DNSConfig
		mounts bool
		want   string
	}{
		{nomad.DNSConfig{}, false, `driver "exec2" can't mount a resolv.conf for a task`},
		{nomad.DNSConfig{Servers: []string{"${meta.nothing}"}}, true, `dns: "${meta.nothing}"`},
		{nomad.DNSConfig{Servers: []string{"${NOMAD_META_corp}"}}, true, `"corp.example", which is not an IP address`},
	} {
		cfg := resolving("host", &c.dns)
		cfg.Capabilities.Mounts = c.mounts
		if _, err := prestart(t, cfg, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Prestart() = %v, want %q", err, c.want)
		}
	}
}

// A driver that applies the block itself gets it as it is, and no files.
func TestDNSOfTheDriver(t *testing.T) {
	cfg := resolving("host", &nomad.DNSConfig{Servers: []string{"192.0.2.1"}, Searches: []string{"${NOMAD_META_corp}"}})
	cfg.Capabilities.DNS = true
	got, err := prestart(t, cfg, nil)
	if err != nil || len(got.files) != 0 {
		t.Fatalf("files = %+v, %v, want none", got.files, err)
	}
	if got.dns == nil || got.dns.Servers[0] != "192.0.2.1" || got.dns.Searches[0] != "corp.example" {
		t.Errorf("dns = %+v", got.dns)
	}
}

// A task reports the services and tags that DNS cannot find, and the first task those of the group.
func TestNamesThatDNSCannotFind(t *testing.T) {
	const head = "Task hook message: DNS answers that these names do not exist, the API finds them: "
	service := func(name string, tags ...string) *nomad.Service {
		return &nomad.Service{Name: name, Provider: "nomad", Tags: tags}
	}
	tags := []string{"a b", "c d", "e f", "g h", "i j"}
	for _, c := range []struct {
		name        string
		group, task []*nomad.Service
		first, want string
		server      taskhook.DNS
	}{
		{name: "all are found", group: []*nomad.Service{service("web", "V1")}, task: []*nomad.Service{service("api", "a_b")}, first: "web", server: gateways{}},
		{name: "without DNS", task: []*nomad.Service{service("Web")}, first: "web"},
		{name: "of the group", group: []*nomad.Service{service("Web", "x y")}, first: "web", server: gateways{}, want: head + `service "Web"`},
		{name: "of the group, another task", group: []*nomad.Service{service("Web")}, first: "other", server: gateways{}},
		{name: "interpolated", task: []*nomad.Service{service("${NOMAD_META_name}")}, first: "other", server: gateways{}, want: head +
			`service "${NOMAD_META_name}"`},
		{name: "interpolated tag", task: []*nomad.Service{service("${NOMAD_META_low}", "a ${NOMAD_META_name}")}, first: "other", server: gateways{},
			want: head + `tag "a ${NOMAD_META_name}" of service "${NOMAD_META_low}"`},
		{name: "tags", task: []*nomad.Service{service("web", tags...)}, first: "web", server: gateways{}, want: head +
			`tag "a b" of service "web", tag "c d" of service "web", tag "e f" of service "web", 2 more`},
		{name: "long", task: []*nomad.Service{service("web", strings.Repeat("a", 99))}, first: "web", server: gateways{}, want: head +
			`tag "` + strings.Repeat("a", 64) + `" of service "web"`},
		{name: "of Consul", task: []*nomad.Service{{Name: "Web", Provider: "consul"}}, first: "web", server: gateways{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := resolving("host", nil)
			cfg.DNS, cfg.Task.Services = c.server, c.task
			cfg.Task.Meta["name"], cfg.Task.Meta["low"] = "Web", "web"
			group := cfg.Alloc.Job.TaskGroups[0]
			group.Services, group.Tasks = c.group, []*nomad.Task{{Name: c.first}}
			got, err := prestart(t, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got.messages, "\n"); text != c.want {
				t.Errorf("the hooks emit %q, want %q", text, c.want)
			}
		})
	}
}
