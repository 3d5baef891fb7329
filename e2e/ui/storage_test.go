package ui

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

const (
	volumeID  = "database"
	pluginID  = "ebs"
	endedID   = "aaaaaaaa-1111-2222-3333-444444444444"
	runningID = "bbbbbbbb-1111-2222-3333-444444444444"
	lostNode  = "cccccccc-1111-2222-3333-444444444444"
	waits     = "node cccccccc is down: "
	ends      = "nomad volume detach database cccccccc"
)

// storage answers the routes of CSI as the servers would for a cluster with a stuck claim, in front of the agent of the house.
type storage struct {
	agent http.Handler

	mu       sync.Mutex
	released bool     // guarded by mu
	deleted  []string // requests; guarded by mu
}

// withStorage returns a house whose agent has a CSI plugin and volumes.
func withStorage(t *testing.T) (*house, *storage) {
	t.Helper()
	shared := open(t)
	to, err := url.Parse(shared.agent.Address())
	if err != nil {
		t.Fatal(err)
	}
	s := &storage{agent: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the agent compares it with the origin
	}}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return &house{dir: shared.dir, agent: &cluster.Agent{Options: cluster.Options{HTTP: port}, Client: shared.agent.Client}, browser: shared.browser}, s
}

// ServeHTTP implements http.Handler.
func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(v any) {
		text, err := codec.EncodeJSON(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Nomad-Index", "1")
		w.Write(text) // the browser is gone when this fails
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/v1/volume/csi/"):
		s.deleted = append(s.deleted, r.URL.Path+" "+q.Get("node")+" "+q.Get("namespace"))
		s.released = true
	case r.URL.Path == "/v1/volumes" && q.Get("type") == "csi":
		reply([]*csi.Stub{s.volume().Stub(), {ID: hostile("volume"), Name: hostile("name"), Namespace: "default", PluginID: hostile("plugin"),
			ExternalID: hostile("external"), AccessMode: nomad.VolumeAccessMode(hostile("mode"))}})
	case r.URL.Path == "/v1/volume/csi/"+volumeID:
		reply(s.volume())
	case r.URL.Path == "/v1/plugins":
		reply([]*csi.PluginStub{plugin().Stub(), {ID: hostile("plugin"), Provider: hostile("provider")}})
	case r.URL.Path == "/v1/plugin/csi/"+pluginID:
		reply(plugin())
	default:
		s.mu.Unlock()
		defer s.mu.Lock()
		s.agent.ServeHTTP(w, r)
	}
}

// volume is a volume that an allocation uses, with the claim of an ended allocation until it is released.
func (s *storage) volume() *csi.Volume {
	alloc := &nomad.AllocListStub{ID: runningID, JobID: "db", Namespace: "default", TaskGroup: "g", Name: "db.g[0]", NodeID: lostNode,
		NodeName: hostile("node"), ClientStatus: "running", DesiredStatus: "run", CreateTime: time.Now().UnixNano()}
	v := &csi.Volume{ID: volumeID, Name: hostile("name"), Namespace: "default", PluginID: pluginID, Provider: "ebs.csi.example",
		ProviderVersion: "1.2.0", ExternalID: "vol-0123", Capacity: 10 << 30, AccessMode: nomad.VolumeSingleNodeWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem, Schedulable: true, ControllerRequired: true, ControllersHealthy: 1, ControllersExpected: 1,
		NodesHealthy: 1, NodesExpected: 2, MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"[REDACTED]"}},
		Topologies:            []*nomad.CSITopology{{Segments: map[string]string{"zone": hostile("zone")}}},
		RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}},
		WriteAllocs:           map[string]*nomad.Allocation{runningID: nil}, WriteClaims: map[string]*csi.Claim{runningID: {}},
		Allocations: []*nomad.AllocListStub{alloc}}
	if !s.released {
		v.Releases = []*csi.Release{{AllocID: endedID, NodeID: lostNode, State: csi.ClaimUnpublishing.String(),
			Since: time.Now().Add(-time.Hour), Waits: waits + hostile("cause"), Command: ends}}
	}
	return v
}

// plugin is a plugin with a healthy controller, and an unhealthy instance on a node.
func plugin() *csi.Plugin {
	healthy := &nomad.CSIInfo{PluginID: pluginID, AllocID: runningID, Healthy: true, HealthDescription: "healthy", UpdateTime: time.Now(),
		ControllerInfo: &nomad.CSIControllerInfo{SupportsCreateDelete: true, SupportsClone: true}}
	failed := &nomad.CSIInfo{PluginID: pluginID, AllocID: endedID, HealthDescription: hostile("failed fingerprinting"), UpdateTime: time.Now(),
		NodeInfo: &nomad.CSINodeInfo{ID: "i-1", MaxVolumes: 25, AccessibleTopology: &nomad.CSITopology{Segments: map[string]string{"zone": "a"}},
			RequiresNodeStageVolume: true}}
	return &csi.Plugin{ID: pluginID, Provider: hostile("provider"), Version: "1.2.0", ControllerRequired: true,
		Controllers: map[string]*nomad.CSIInfo{lostNode: healthy}, Nodes: map[string]*nomad.CSIInfo{lostNode: failed},
		ControllersHealthy: 1, ControllersExpected: 1, NodesExpected: 1,
		NodeJobs: csi.JobDescriptions{"default": {"ebs-nodes": {Namespace: "default", ID: "ebs-nodes", Expected: 1}}}}
}

// The pages of CSI volumes and plugins show what a claim waits for. Their texts come from plugins, which are hostile.
func TestStoragePages(t *testing.T) {
	h, s := withStorage(t)
	volume, plugin := "/ui/storage/volumes/csi/"+volumeID+"@default", "/ui/storage/plugins/"+pluginID
	h.visit(t, visited{name: "volumes", path: "/ui/storage/volumes", text: "vol-0123"})
	h.visit(t, visited{name: "volume", path: volume, text: ends})
	h.visit(t, visited{name: "volume-release", path: volume, text: ends, act: func(p *tab) { p.click("Try now") }})
	h.visit(t, visited{name: "plugins", path: "/ui/storage/plugins", text: pluginID})
	h.visit(t, visited{name: "plugin", path: plugin, text: "failed fingerprinting"})
	h.visit(t, visited{name: "host-volumes", path: "/ui/storage/volumes/dynamic", text: "There are no dynamic host volumes."})

	p := h.signedIn(t, "404")
	p.show(views[0])
	for _, page := range []struct{ path, text string }{
		{"/ui/storage", "vol-0123"}, {"/ui/csi", "vol-0123"}, {"/ui/csi/volumes", "vol-0123"}, {"/ui/csi/plugins", pluginID},
		{"/ui/csi/plugins/" + pluginID, "ebs-nodes"}, {"/ui/csi/volumes/" + volumeID, "Claims being released"},
		{plugin, "create and delete volumes"}, {plugin, "zone=a"}, {volume, waits}, {volume, "10.0 GiB"}, {volume, "1 of 2"},
		{"/ui/storage/volumes/csi/nothing@default", "Could not read this volume."},
		{"/ui/storage/plugins/nothing", "Could not read this plugin."},
	} {
		p.goTo(page.path, page.text)
		p.uninjected(page.path)
	}
	p.goTo("/ui/storage/volumes", "vol-0123")
	p.click(volumeID)
	p.waitText("Claims being released")
	p.click("Try now")
	p.inDialog("Release")
	p.wait("the claim is gone", "!document.querySelector('main').innerText.includes('Claims being released')")
	if want := "/v1/volume/csi/database/detach " + lostNode + " default"; len(s.deleted) != 1 || s.deleted[0] != want {
		t.Errorf("requests %q, want %s", s.deleted, want)
	}
}

// The lists of the servers have the choices of the filters: no expression has a mistake.
func TestStorageFilters(t *testing.T) {
	h := open(t)
	p := h.signedIn(t)
	p.show(views[0])
	for path, text := range map[string]string{"/ui/storage/volumes?q=x": "No CSI volumes match the filter.",
		"/ui/storage/volumes/dynamic?q=x": "No host volumes match the filter.", "/ui/storage/plugins?q=x": "No CSI plugins match the filter."} {
		p.goTo(path, text)
		p.everyChoice()
	}
	p.goTo("/ui/storage/volumes", "No CSI volume is registered.")
}

// The page of a job has the volumes of its groups.
func TestJobVolumes(t *testing.T) {
	h := open(t)
	h.run(t, `job "with-volumes" {
  group "g" {
    count = 0
    volume "data" {
      type            = "csi"
      source          = "database"
      access_mode     = "multi-node-single-writer"
      attachment_mode = "file-system"
    }
    volume "own" {
      type            = "csi"
      source          = "own"
      per_alloc       = true
      read_only       = true
      access_mode     = "single-node-reader-only"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "mock_driver"
    }
  }
}`)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/jobs/with-volumes@default", "one for each allocation")
	if got := evaluate[string](p, `[...document.querySelectorAll('main a')].find((a) => a.innerText === 'database')?.getAttribute('href') ?? ''`); got != "/ui/storage/volumes/csi/database%40default" {
		t.Errorf("the volume links to %q", got)
	}
	h.visit(t, visited{name: "job-volumes", path: "/ui/jobs/with-volumes@default", text: "multi-node-single-writer"})
}
