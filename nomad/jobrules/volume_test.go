package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// mounting returns a service job with one volume that is mounted once.
func mounting(edit func(v *nomad.VolumeRequest, m *nomad.VolumeMount, j *nomad.Job)) *nomad.Job {
	j := sample("service")
	v := &nomad.VolumeRequest{Type: "host", Source: "data"}
	m := &nomad.VolumeMount{Volume: "v", Destination: "/srv/data", PropagationMode: "private"}
	j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": v}
	j.TaskGroups[0].Tasks[0].VolumeMounts = []*nomad.VolumeMount{m}
	edit(v, m, j)
	jobrules.Canonicalize(j)
	return j
}

func TestValidateVolumes(t *testing.T) {
	type edit = func(v *nomad.VolumeRequest, m *nomad.VolumeMount, j *nomad.Job)
	const absent = "not supported by this version"
	for _, c := range []struct {
		name string
		edit edit
		want string // "" is fine
	}{
		{"plain", func(*nomad.VolumeRequest, *nomad.VolumeMount, *nomad.Job) {}, ""},
		{"all that may be said", func(v *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) {
			v.ReadOnly, v.PerAlloc, v.AccessMode, v.AttachmentMode, m.ReadOnly = true, true, "single-node-writer", "file-system", true
		}, ""},
		{"references of mounts", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) {
			m.Volume, m.Destination, m.PropagationMode = "${meta.v}", "${NOMAD_TASK_DIR}/../x", "${meta.p}"
		}, ""},
		{"relative destination", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Destination = "local/data" }, ""},
		{"no type", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Type = "" }, ""},
		{"unknown type", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Type = "nfs" }, `type is "nfs": use host or csi`},
		{"sticky", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Sticky = true }, ""},
		{"sticky per_alloc", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Sticky, v.PerAlloc = true, true },
			"sticky is not allowed with per_alloc"},
		{"sticky csi", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Sticky, v.Type = true, "csi" },
			`sticky is not allowed for type "csi"`},
		{"mount options", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) {
			v.MountOptions = &nomad.CSIMountOptions{FSType: "ext4"}
		}, "mount_options is only for volumes of type csi"},
		{"block device", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.AttachmentMode = "block-device" }, absent},
		{"single writer", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) {
			v.AccessMode = "single-node-single-writer"
		}, ""},
		{"unknown attachment", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.AttachmentMode = "x" },
			`attachment_mode is "x"`},
		{"many nodes", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) {
			v.AccessMode = "multi-node-reader-only"
		}, "a host volume is on a single node"},
		{"unknown access", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.AccessMode = "x" }, `access_mode is "x"`},
		{"no source", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Source = "" }, "missing source"},
		{"source with a reference", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Source = "d-${meta.x}" },
			"or per_alloc"},
		{"per_alloc of a system job", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, j *nomad.Job) { v.PerAlloc, j.Type = true, "system" },
			"volume cannot be per_alloc for system or sysbatch jobs"},
		{"per_alloc with canaries", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, j *nomad.Job) {
			v.PerAlloc, j.TaskGroups[0].Update = true, &nomad.UpdateStrategy{MaxParallel: 1, Canary: 1}
		}, "volume cannot be per_alloc when canaries are in use"},
		{"owner", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Owner = "task" },
			`owner is only for volumes of type csi, and volume "v" is of type "host"`},
		{"another name", func(v *nomad.VolumeRequest, _ *nomad.VolumeMount, _ *nomad.Job) { v.Name = "w" }, `it has the name "w"`},
		{"unknown volume", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Volume = "w" }, `group "g" has no volume "w"`},
		{"no volume", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Volume = "" }, "missing volume"},
		{"no destination", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Destination = "" }, "missing destination"},
		{"root", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Destination = "//" }, "would hide all other files"},
		{"dots", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Destination = "local/../../x" }, "contains .."},
		{"kernel", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.Destination = "/dev/shm" }, "is in /dev"},
		{"propagation", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.PropagationMode = "bidirectional" }, ""},
		{"unknown propagation", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.PropagationMode = "x" },
			`propagation_mode is "x"`},
		{"selinux", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.SELinuxLabel = "Z" }, ""},
		{"unknown selinux", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, _ *nomad.Job) { m.SELinuxLabel = "x" },
			`selinux_label is "x": use z`},
		{"destination twice", func(_ *nomad.VolumeRequest, m *nomad.VolumeMount, j *nomad.Job) {
			other := *m
			other.Destination = "/srv/./data"
			j.TaskGroups[0].Tasks[0].VolumeMounts = append(j.TaskGroups[0].Tasks[0].VolumeMounts, &other)
		}, "of two volume_mount blocks"},
	} {
		t.Run(c.name, func(t *testing.T) { wantFault(t, mounting(c.edit), c.want) })
	}
}

// wantFault checks the validation error of a job; "" means no error.
func wantFault(t *testing.T, j *nomad.Job, want string) {
	t.Helper()
	err := jobrules.Validate(j)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("Validate() = %v, want %q", err, want)
	}
}

func TestValidateNetworks(t *testing.T) {
	port := []nomad.Port{{Label: "http"}}
	dns := func(d nomad.DNSConfig) nomad.Networks { return nomad.Networks{{DNS: &d}} }
	many := make([]string, 33)
	for _, c := range []struct {
		name        string
		group, task nomad.Networks
		want        string
	}{
		{"host", nomad.Networks{{Mode: "host", DynamicPorts: port}}, nil, ""},
		{"none", nomad.Networks{{Mode: "none"}}, nil, ""},
		{"none with ports", nomad.Networks{{Mode: "none", DynamicPorts: port}}, nil, "cannot be reached"},
		{"bridge", nomad.Networks{{Mode: "bridge", Hostname: "web-1.example", DynamicPorts: []nomad.Port{{Label: "http", To: 80}}, Isolate: true,
			Egress: &nomad.NetworkEgress{Allow: []string{"10.0.0.0/8", "tcp:443", "fd00::/8:udp:53"}}}}, nil, ""},
		{"cni", nomad.Networks{{Mode: "cni/x", CNI: &nomad.CNIConfig{Args: map[string]string{"color": "red", "K": "a=b"}}}}, nil, ""},
		{"cni without a name", nomad.Networks{{Mode: "cni/"}}, nil, `mode of network is "cni/"`},
		{"cni path", nomad.Networks{{Mode: "cni/../x"}}, nil, `mode of network is "cni/../x"`},
		{"cni args", nomad.Networks{{Mode: "cni/x", CNI: &nomad.CNIConfig{Args: map[string]string{"a": "b;NOMAD_JOB_ID=c"}}}}, nil,
			`args of cni has the entry "a"`},
		{"cni args key", nomad.Networks{{Mode: "bridge", CNI: &nomad.CNIConfig{Args: map[string]string{"a=b": "c"}}}}, nil,
			`args of cni has the entry "a=b"`},
		{"cni args with an address on the bridge",
			nomad.Networks{{Mode: "bridge", CNI: &nomad.CNIConfig{Args: map[string]string{"MAC": "02:00:00:00:00:01"}}}}, nil,
			"args of cni has MAC"},
		{"cni args with an address",
			nomad.Networks{{Mode: "cni/x", CNI: &nomad.CNIConfig{Args: map[string]string{"MAC": "02:00:00:00:00:01"}}}}, nil, ""},
		{"to on the host", nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "http", To: 80}}}}, nil, ""},
		{"to out of range", nomad.Networks{{Mode: "bridge", DynamicPorts: []nomad.Port{{Label: "http", To: 65536}}}}, nil,
			"it must be 1 to 65535"},
		{"ignore_collision", nomad.Networks{{Mode: "bridge", ReservedPorts: []nomad.Port{{Label: "http", Value: 80, IgnoreCollision: true}}}},
			nil, "ignore_collision, which needs the host's network"},
		{"isolate on the host", nomad.Networks{{Isolate: true}}, nil, `isolate and egress of network need mode "bridge"`},
		{"egress of cni", nomad.Networks{{Mode: "cni/x", Egress: &nomad.NetworkEgress{}}}, nil,
			`isolate and egress of network need mode "bridge"`},
		{"egress", nomad.Networks{{Mode: "bridge", Egress: &nomad.NetworkEgress{Allow: []string{"example.com"}}}}, nil,
			`allow of egress: destination "example.com" is malformed`},
		{"egress at length", nomad.Networks{{Mode: "bridge", Egress: &nomad.NetworkEgress{Allow: make([]string, 129)}}}, nil, "the limit is 128"},
		{"hostname malformed", nomad.Networks{{Mode: "bridge", Hostname: "a b"}}, nil, "not a DNS name"},
		{"hostname with a reference", nomad.Networks{{Mode: "bridge", Hostname: "web-${NOMAD_ALLOC_INDEX}"}}, nil, ""},
		{"hostname at length", nomad.Networks{{Mode: "bridge", Hostname: strings.Repeat("a.", 32) + "b"}}, nil, "not a DNS name"},
		{"unknown mode", nomad.Networks{{Mode: "weave"}}, nil, `mode of network is "weave"`},
		{"two modes", nomad.Networks{{Mode: "none"}, {Mode: "host"}}, nil, "different modes"},
		{"two modes, one by default", nomad.Networks{{}, {Mode: "none"}}, nil, "different modes"},
		{"hostname", nomad.Networks{{Hostname: "x"}}, nil, "tasks on the host's network have its name"},
		{"task", nil, nomad.Networks{{MBits: 10, DynamicPorts: port}}, ""},
		{"task with a mode", nil, nomad.Networks{{Mode: "none"}}, "move the block there"},
		{"task with dns", nil, nomad.Networks{{DNS: &nomad.DNSConfig{}}}, "move the block there"},
		{"task with two", nil, nomad.Networks{{}, {}}, "the limit is 1"},
		{"task in none", nomad.Networks{{Mode: "none"}}, nomad.Networks{{DynamicPorts: port}}, "do not reach the task"},
		{"label of the group", nomad.Networks{{DynamicPorts: port}}, nomad.Networks{{DynamicPorts: port}}, `duplicate port label "http"`},
		{"static number of the group", nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "a", Value: 80}}}},
			nomad.Networks{{ReservedPorts: []nomad.Port{{Label: "b", Value: 80}}}}, "same static number 80"},
		{"dns", dns(nomad.DNSConfig{Servers: []string{"10.0.0.53", "fe80::1%eth0", "${attr.unique.network.ip-address}"},
			Searches: []string{"corp.example", "."}, Options: []string{"ndots:2", "rotate"}}), nil, ""},
		{"dns server by name", dns(nomad.DNSConfig{Servers: []string{"ns.example"}}), nil, "which is not an IP address"},
		{"dns server and more", dns(nomad.DNSConfig{Servers: []string{"fe80::1%a\nsearch evil"}}), nil, "which is not an IP address"},
		{"dns search of two words", dns(nomad.DNSConfig{Searches: []string{"a b"}}), nil, "which is not a domain name"},
		{"dns option", dns(nomad.DNSConfig{Options: []string{"ndots:2\nnameserver 1.1.1.1"}}), nil, "which is not an option"},
		{"dns at length", dns(nomad.DNSConfig{Servers: many}), nil, "the limit is 32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sample("service")
			j.TaskGroups[0].Networks = c.group
			j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 100, MemoryMB: 100, Networks: c.task}
			jobrules.Canonicalize(j)
			wantFault(t, j, c.want)
		})
	}
}

// Ports of different tasks may have the same label, because each belongs to its task.
func TestLabelsOfTasks(t *testing.T) {
	j := sample("service")
	for _, name := range []string{"a", "b"} {
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &nomad.Task{Name: name, Driver: "exec2", Resources: &nomad.Resources{
			CPU: 100, MemoryMB: 100, Networks: nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "http"}}}}}})
	}
	jobrules.Canonicalize(j)
	wantFault(t, j, "")
	if w := strings.Join(jobrules.Warnings(j), "\n"); !strings.Contains(w, `task "a": network in resources`) {
		t.Errorf("Warnings() = %q", w)
	}
}

func TestSourceForAllocation(t *testing.T) {
	for _, c := range []struct {
		v    nomad.VolumeRequest
		want string
	}{
		{nomad.VolumeRequest{Source: "data"}, "data"},
		{nomad.VolumeRequest{Source: "data", PerAlloc: true}, "data[3]"},
	} {
		if got := c.v.SourceFor("job[x].group[3]"); got != c.want {
			t.Errorf("SourceFor() = %q, want %q", got, c.want)
		}
	}
}

// A port that differs inside the task is accepted in every mode. Where nothing forwards it, there is a warning.
func TestPortsInsideTheTask(t *testing.T) {
	docker := func(config map[string]any) *nomad.Task {
		return &nomad.Task{Name: "d", Driver: "docker", Config: config}
	}
	for _, c := range []struct {
		mode   string
		driver string
		other  *nomad.Task
		warned bool
	}{
		{"host", "exec2", nil, true}, {"", "raw_exec", nil, true}, {"host", "docker", nil, true},
		{"", "exec2", docker(map[string]any{"ports": []any{"http"}}), false}, {"", "exec2", docker(map[string]any{"ports": []any{"ssh"}}), true},
		{"bridge", "exec2", nil, false}, {"cni/x", "raw_exec", nil, false},
	} {
		j := sample("service")
		tg := j.TaskGroups[0]
		tg.Networks = nomad.Networks{{Mode: c.mode, DynamicPorts: []nomad.Port{{Label: "http", To: 80}, {Label: "same", To: -1}},
			ReservedPorts: []nomad.Port{{Label: "x", Value: 22, To: 22}}}}
		tg.Tasks[0].Driver = c.driver
		if c.other != nil {
			tg.Tasks = append(tg.Tasks, c.other)
		}
		jobrules.Canonicalize(j)
		if err := jobrules.Validate(j); err != nil {
			t.Errorf("%q with %s: Validate() = %v", c.mode, c.driver, err)
		}
		got := strings.Join(jobrules.Warnings(j), "\n")
		want := `job "j", group "g": to of port "http" has no effect on connections: nothing is forwarded on the host's network. NOMAD_PORT_http is this number`
		if c.warned != strings.HasPrefix(got, want) || !c.warned && got != "" {
			t.Errorf("%q with %s: Warnings() = %q", c.mode, c.driver, got)
		}
	}
}
