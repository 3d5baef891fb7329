package migrate_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/migrate"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// The record types of Nomad 2.0 that the fixtures have.
const (
	nodeType, jobType, csiVolumeType, serviceType = 0, 1, 18, 21
)

type m = map[string]any

// record is a record in a snapshot of Nomad: its type and a map of its fields.
type record struct {
	kind   byte
	fields m
}

// archive returns an archive of records.
func archive(t *testing.T, records ...record) []byte {
	t.Helper()
	stream := bytes.NewBuffer([]byte{0x80}) // an empty header
	for _, r := range records {
		raw, err := codec.Encode(r.fields)
		if err != nil {
			t.Fatal(err)
		}
		stream.WriteByte(r.kind)
		stream.Write(raw)
	}
	var out bytes.Buffer
	meta := &raft.SnapshotMeta{Version: 1, ID: "2-7-1", Index: 7, Term: 2, Size: int64(stream.Len())}
	if _, err := snapshot.Write(&out, meta, stream); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// job returns a running job with one task and extra fields.
func job(id, driver string, group, extra m) record {
	g := m{"Name": "g", "Count": 1, "Tasks": []any{m{"Name": "t", "Driver": driver, "Config": m{"command": "/bin/app"}}}}
	for k, v := range group {
		g[k] = v
	}
	j := m{"ID": id, "Name": id, "Namespace": "default", "Region": "global", "Type": "service", "Status": "running", "TaskGroups": []any{g}}
	for k, v := range extra {
		j[k] = v
	}
	return record{jobType, j}
}

// upstream is the state of a small Nomad cluster.
func upstream() []record {
	return []record{
		{nodeType, m{"ID": "11111111-0000-0000-0000-000000000001", "Name": "n1", "Status": "ready", "Datacenter": "dc1",
			"Attributes": m{"driver.podman": "1", "driver.podman.version": "27.0.0", "consul.version": "1.19.0"},
			"Drivers": m{"podman": m{"Detected": true, "Healthy": true}, "raw_exec": m{"Detected": true, "Healthy": true},
				"nspawn": m{"Detected": false}},
			"CSINodePlugins": m{"ebs": m{"PluginID": "ebs", "Healthy": true}},
			"HostVolumes": m{"made": m{"Name": "made", "Path": "/v", "ID": "22222222-0000-0000-0000-000000000001"},
				"static": m{"Name": "static", "Path": "/s"}},
			"NodeResources": m{"Devices": []any{m{"Vendor": "nvidia", "Type": "gpu", "Name": "T4"}}}}},
		{nodeType, m{"ID": "11111111-0000-0000-0000-000000000002", "Name": "n2", "Status": "ready",
			"Drivers": m{"podman": m{"Detected": true, "Healthy": true}, "lxc": m{"Detected": true, "Healthy": true}}}},
		{nodeType, m{"ID": "11111111-0000-0000-0000-000000000003", "Name": "n3", "Status": "down",
			"Drivers": m{"podman": m{"Detected": true, "Healthy": true}}}},
		job("backup", "raw_exec", nil, m{"Type": "batch", "Multiregion": m{"Regions": []any{m{"Name": "global"}}}}),
		job("web", "podman", m{"Services": []any{m{"Name": "web", "Provider": "consul"}},
			"Constraints": []any{m{"LTarget": "${attr.consul.version}", "RTarget": ">= 1.8.0", "Operand": "semver"}}}, nil),
		job("mesh", "podman", m{"Constraints": []any{m{"LTarget": "${attr.consul.datacenter}", "RTarget": "east", "Operand": "="}},
			"Services": []any{m{"Name": "api_v1", "Provider": "consul", "PortLabel": "9001",
				"Connect": m{"SidecarService": m{}}, "Identity": m{"Name": "consul-service_api_v1-9001", "Audience": []string{"consul.io"}}}},
			"Tasks": []any{m{"Name": "t", "Driver": "podman", "Consul": m{}, "Config": m{"image": "api"},
				"Identities": []any{m{"Name": "consul_default", "Audience": []string{"consul.io"}}}},
				m{"Name": "connect-proxy-api", "Kind": "connect-proxy:api_v1", "Driver": "podman"}}}, nil),
		job("old", "podman", nil, m{"Stop": true, "Status": "dead"}),
		job("db", "exec2", m{"Volumes": m{"data": m{"Name": "data", "Type": "csi", "Source": "vol"}}}, nil),
		{csiVolumeType, m{"ID": "vol", "Namespace": "default", "PluginID": "ebs", "Secrets": m{"key": "x"}}},
		{csiVolumeType, m{"ID": "open", "Namespace": "default", "PluginID": "ebs"}},
		{serviceType, m{"ID": "_nomad-task-1", "ServiceName": "web", "Namespace": "default", "NodeID": "11111111-0000-0000-0000-000000000001",
			"JobID": "web"}},
	}
}

// checked returns the report for an archive.
func checked(t *testing.T, data []byte, c *migrate.Cluster, keys []migrate.Key) *migrate.Report {
	t.Helper()
	s, index, err := migrate.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return migrate.New(migrate.Input{State: s, Index: index, Cluster: c, Keys: keys})
}

// unwrapped returns the text of a report with each step on one line.
func unwrapped(r *migrate.Report) string {
	return regexp.MustCompile(`\n {5}([^ ])`).ReplaceAllString(r.Text(term.Short), " $1")
}

func TestUpstreamState(t *testing.T) {
	r := checked(t, archive(t, upstream()...), nil, nil)
	var got []string
	for _, f := range append(r.Features, r.Nodes...) {
		got = append(got, fmt.Sprintf("%s|%d|%s|%t", f.Name, f.Count, strings.Join(f.Jobs, ","), f.Lost))
	}
	want := []string{
		"multiregion|1|default/backup|true",
		"driver lxc|1||false",
		"driver podman|2|default/mesh,default/web|false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !r.Lost || r.Index != 7 || r.Jobs != 5 || r.ClientNodes != 3 {
		t.Errorf("Lost %t, index %d, %d jobs, %d nodes", r.Lost, r.Index, r.Jobs, r.ClientNodes)
	}
	text := unwrapped(r)
	for _, want := range []string{"multiregion blocks of 1 job have no effect: each region runs its part independently\n      default/backup",
		"driver podman is on 2 nodes; 2 jobs need it: install its program on the new clients\n      default/mesh, default/web",
		"driver lxc is on 1 node; no job needs it", "encrypts those of a volume that is registered", "does not serve everything"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the golden file")

// TestDocumentedOutput compares the text of a report with its golden file and with the page
// about the migration.
func TestDocumentedOutput(t *testing.T) {
	const golden, page = "testdata/report.txt", "../../website/content/docs/migrate.md"
	keys := []migrate.Key{{Place: "/etc/nomad.d/nomad.hcl:12", Key: "server.license_path", Effect: "licenses: the agent does not start",
		Refused: true},
		{Place: "/etc/nomad.d/nomad.hcl:31", Key: "disable_update_check", Effect: "the agent never checks for updates: accepted without effect"}}
	got := checked(t, archive(t, upstream()...), nil, keys).Text(term.Short) + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{golden, page} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), got) {
			t.Errorf("%s does not have the output:\n%s", file, got)
		}
	}
}

// A cluster that uses only features of this version loses nothing, even if its nodes have
// additional drivers.
func TestNothingIsLost(t *testing.T) {
	data := archive(t, job("web", "exec2", nil, nil),
		record{nodeType, m{"ID": "n", "Status": "ready", "Drivers": m{"nspawn": m{"Detected": true, "Healthy": true}}}})
	ignored := []migrate.Key{{Key: "disable_update_check", Effect: "accepted without effect"}}
	if r := checked(t, data, nil, ignored); r.Lost || !strings.Contains(r.Text(term.Short), "serves everything in use") {
		t.Error(r.Text(term.Short))
	}
	if r := checked(t, data, nil, []migrate.Key{{Key: "consul.address", Refused: true}}); !r.Lost {
		t.Error("a refused key is not a loss")
	}
	if r := checked(t, data, &migrate.Cluster{Enterprise: true}, nil); !r.Lost {
		t.Error("servers of Nomad Enterprise are not a loss")
	}
}

func TestManyJobsAreNamedInFullDetail(t *testing.T) {
	var records []record
	for i := range 8 {
		records = append(records, job(fmt.Sprint("job", i), "podman", nil, nil))
	}
	r := checked(t, archive(t, records...), nil, nil)
	if text := r.Text(term.Short); !strings.Contains(text, "default/job4 and 3 more (-verbose)") || strings.Contains(text, "default/job5") {
		t.Error(text)
	}
	if text := r.Text(term.Full); !strings.Contains(text, "default/job7\n") {
		t.Error(text)
	}
}

// An invalid or truncated archive is an error.
func TestBadArchives(t *testing.T) {
	good := archive(t, upstream()...)
	altered := slices.Clone(good)
	altered[len(altered)/2] ^= 0xff
	for name, data := range map[string][]byte{"empty": nil, "text": []byte("job \"web\" {}"), "cut short": good[:len(good)/2],
		"altered":        altered,
		"unknown record": archive(t, record{200, m{"ID": "x"}})} {
		if _, _, err := migrate.Read(bytes.NewReader(data)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want an error of one line", name, err)
		}
	}
}

// agentOf serves the HTTP API of a Nomad 2.0 agent.
func agentOf(t *testing.T, routes map[string]any) *api.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body := routes[r.URL.Path].(type) {
		case nil:
			http.Error(w, "Permission denied", http.StatusForbidden)
		case []byte:
			sum := sha256.Sum256(body)
			w.Header().Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum[:]))
			w.Write(body)
		default:
			if err := json.NewEncoder(w).Encode(body); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	c, err := api.NewClient(&api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func member(name, addr, build string, tags m) m {
	all := m{"build": build, "region": "global", "port": "4647", "id": name}
	for k, v := range tags {
		all[k] = v
	}
	return m{"Name": name + ".global", "Addr": addr, "Port": 4648, "Status": "alive", "Tags": all}
}

func self(tls bool, metadata string) m {
	return m{"config": m{"Region": "global", "Version": m{"Version": "2.0.0", "VersionMetadata": metadata},
		"TLSConfig": m{"EnableRPC": tls, "VerifyServerHostname": tls},
		"Server":    m{"RaftLogStoreConfig": m{"Backend": "boltdb"}}}, "stats": m{"serf": m{"encrypted": "true"}}}
}

func TestAgentOfUpstream(t *testing.T) {
	c := agentOf(t, map[string]any{
		"/v1/operator/snapshot": archive(t, upstream()...),
		"/v1/agent/self":        self(false, ""),
		"/v1/agent/members": m{"ServerRegion": "global",
			"Members": []any{member("b", "10.0.0.2", "1.9.7", nil), member("a", "10.0.0.1", "2.0.0", nil),
				member("far", "10.1.0.1", "1.5.0", m{"region": "eu"})}},
		"/v1/status/leader": "10.0.0.1:4647",
	})
	body, err := c.Operator().Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	cluster, shown := migrate.Ask(t.Context(), c)
	if shown["Region"] != "global" {
		t.Errorf("the agent shows %v", shown)
	}
	r := checked(t, data, cluster, nil)
	want := []migrate.Server{{Name: "a.global", Build: "2.0.0", Status: "alive", Leader: true},
		{Name: "b.global", Build: "1.9.7", Status: "alive"}}
	if !slices.Equal(r.Cluster.Servers, want) {
		t.Errorf("servers %+v, want %+v", r.Cluster.Servers, want)
	}
	text := unwrapped(r)
	for _, want := range []string{"TLS of RPC            = off", "Gossip encryption     = on", "Log backend           = boltdb",
		"these servers run 1.9.7", "tls.rpc is off: Nomad followers"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

// The steps depend on the answers of the agent.
func TestStepsFollowTheCluster(t *testing.T) {
	nomads, ours := member("a", "10.0.0.1", "2.0.0", nil), member("a", "10.0.0.1", "2.0.0", m{"project": "open-nomad"})
	for name, tt := range map[string]struct {
		self      m
		members   []any
		want, not string
	}{
		"TLS":        {self(true, ""), []any{nomads}, "server.global.nomad", "cannot schedule"},
		"Enterprise": {self(true, "ent"), []any{member("a", "10.0.0.1", "2.0.0+ent", nil)}, "Nomad Enterprise to the community edition", ""},
		"our leader": {self(true, ""), []any{ours, member("b", "10.0.0.2", "2.0.1", nil)}, "Drain each node, then start the new agent",
			"Transfer the leadership"},
		"no rights": {nil, []any{nomads}, "Unknown: configuration of the agent (needs agent:read): Unexpected response code: 403", ""},
	} {
		t.Run(name, func(t *testing.T) {
			routes := map[string]any{"/v1/agent/members": m{"ServerRegion": "global", "Members": tt.members}, "/v1/status/leader": "10.0.0.1:4647"}
			if tt.self != nil {
				routes["/v1/agent/self"] = tt.self
			}
			cluster, shown := migrate.Ask(t.Context(), agentOf(t, routes))
			if (shown == nil) != (tt.self == nil) {
				t.Errorf("the agent shows %v", shown)
			}
			text := unwrapped(checked(t, archive(t), cluster, nil))
			if !strings.Contains(text, tt.want) || tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("want %q and not %q in\n%s", tt.want, tt.not, text)
			}
		})
	}
}

// The order of steps is fixed: the state is saved first, nodes are replaced before servers,
// and features of open-nomad come last.
func TestOrderOfSteps(t *testing.T) {
	text := unwrapped(checked(t, archive(t, upstream()...), nil, nil))
	at := 0
	for _, want := range []string{"Save the state", "Change or stop the jobs", "Write the configuration",
		"Set legacy_privileged_behavior = true in the plugin config of raw_exec", "Replace the client agents", "Replace the servers",
		"Register the CSI volumes with secrets again (1 volume)", "such as quotas"} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or too early in\n%s", want, text)
		}
		at += i
	}
}

// Running jobs whose tasks lack the privilege that they need get a step, and no job is lost by it.
func TestUnprivilegedJobs(t *testing.T) {
	privileged := job("done", "raw_exec", m{"Tasks": []any{m{"Name": "t", "Driver": "raw_exec", "Privileged": true, "Config": m{}}}}, nil)
	container := job("web", "docker", m{"Tasks": []any{m{"Name": "t", "Driver": "docker", "Config": m{"image": "x", "privileged": true}}}},
		nil)
	both := checked(t, archive(t, container, job("raw", "raw_exec", nil, nil)), nil, nil).Text(term.Short)
	for _, want := range []string{"legacy_privileged_behavior = true in the plugin config of docker, raw_exec on",
		"register these jobs again as a caller with privileged-execution"} {
		if !strings.Contains(strings.Join(strings.Fields(both), " "), want) {
			t.Errorf("the steps for docker and raw_exec lack %q:\n%s", want, both)
		}
	}
	for name, tc := range map[string]struct {
		records []record
		want    []string
	}{
		"raw_exec":   {[]record{job("b", "raw_exec", nil, nil), job("a", "raw_exec", nil, nil)}, []string{"default/a", "default/b"}},
		"privileged": {[]record{privileged}, []string{}},
		"CSI plugin": {[]record{job("ebs", "docker", m{"Tasks": []any{m{"Name": "t", "Driver": "docker", "Config": m{"image": "x"},
			"CSIPluginConfig": m{"ID": "ebs", "Type": "node"}}}}, nil)}, []string{"default/ebs"}},
		"exec2":   {[]record{job("web", "exec2", nil, nil)}, []string{}},
		"stopped": {[]record{job("old", "raw_exec", nil, m{"Stop": true})}, []string{}},
	} {
		r := checked(t, archive(t, tc.records...), nil, nil)
		if !slices.Equal(r.Unprivileged.Jobs, tc.want) || r.Lost {
			t.Errorf("%s: jobs %q, lost %t, want %q and nothing lost", name, r.Unprivileged.Jobs, r.Lost, tc.want)
		}
		if got := strings.Contains(r.Text(term.Short), "legacy_privileged_behavior = true"); got != (len(tc.want) > 0) {
			t.Errorf("%s: a step about the option: %t", name, got)
		}
	}
}

// Errors of an agent contain a remedy.
func TestRemedies(t *testing.T) {
	c := agentOf(t, nil)
	_, err := c.Operator().Snapshot(nil)
	if err = migrate.Remedy(err); err == nil || !strings.Contains(err.Error(), `capabilities = ["snapshot-save"]`) {
		t.Errorf("without a right: %v", err)
	}
	if c, err = api.NewClient(&api.Config{Address: "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Operator().Snapshot(nil); err == nil {
		t.Fatal("somebody answers at port 1")
	}
	if err = migrate.Remedy(err); !strings.Contains(err.Error(), "-address") {
		t.Errorf("without an agent: %v", err)
	}
}

// Options that a driver refuses are found before the migration, with the jobs that have them. What it has is not.
func TestRefusedOptions(t *testing.T) {
	container := func(id string, config, extra m) record {
		config["image"] = "web:1"
		return job(id, "docker", m{"Tasks": []any{m{"Name": "t", "Driver": "docker", "Config": config}}}, extra)
	}
	const windows = "config of docker task: not served: isolation: this driver runs on Linux only"
	r := checked(t, archive(t, container("b", m{"isolation": "hyperv"}, nil), container("a", m{"isolation": "process"}, nil),
		container("c", m{"network_mode": "container:db", "auth": []any{m{"username": "u", "password": "hidden"}}}, nil),
		container("old", m{"isolation": "hyperv"}, m{"Stop": true}),
		container("net", m{"network_mode": "shop", "network_aliases": []any{"db"}, "mac_address": "02:68:b3:29:da:98",
			"ipv4_address": "192.0.2.7", "advertise_ipv6_address": true, "cpuset_cpus": "0", "storage_opt": []any{m{"size": "1G"}}}, nil)), nil, nil)
	want := []migrate.Finding{
		{Name: windows, Count: 2, Jobs: []string{"default/a", "default/b"}, Lost: true,
			Effect: "tasks of 2 jobs will not start on clients of this version: " + windows},
		{Name: `config of docker task: not served: network_mode "container:db": tasks cannot join the network of another container`,
			Count: 1, Jobs: []string{"default/c"}, Lost: true},
	}
	want[1].Effect = "tasks of 1 job will not start on clients of this version: " + want[1].Name
	if fmt.Sprint(r.Features) != fmt.Sprint(want) || !r.Lost {
		t.Errorf("features = %+v, want %+v", r.Features, want)
	}
	if text := r.Text(term.Full); strings.Contains(text, "hidden") {
		t.Errorf("the report has a secret:\n%s", text)
	}
}
