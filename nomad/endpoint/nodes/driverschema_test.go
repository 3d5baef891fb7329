package nodes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// ofImage is the schema of a driver that is not built-in.
func ofImage(t *testing.T, more ...string) schema.Schema {
	t.Helper()
	spec := hcldec.ObjectSpec{"image": &hcldec.AttrSpec{Name: "image", Type: cty.String, Required: true}}
	for _, name := range more {
		spec[name] = &hcldec.AttrSpec{Name: name, Type: cty.Number}
	}
	out, err := schema.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reports adds a healthy driver with a schema to a node.
func reports(n *nomad.Node, driver, digest string) {
	n.Drivers[driver] = &nomad.DriverInfo{Detected: true, Healthy: true}
	n.Attributes["driver."+driver] = "1"
	n.Attributes["driver."+driver+".schema"] = digest
}

// sends registers the node again, and sends the schemas that the servers request.
func mustSendSchemas(n *servertest.FakeNode, all ...schema.Schema) {
	n.T.Helper()
	var out message.NodeUpdateResponse
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, &out)
	for _, own := range all {
		if slices.Contains(out.WantedSchemas, own.Digest) {
			n.Must("Node.UpsertDriverSchemas", schemaRequest(n, own), nil)
		}
	}
}

func schemaRequest(n *servertest.FakeNode, all ...schema.Schema) *message.DriverSchemaUpsertRequest {
	req := &message.DriverSchemaUpsertRequest{NodeID: n.Node.ID, WriteRequest: n.Write(n.JWT)}
	for _, own := range all {
		req.Schemas = append(req.Schemas, &nomad.DriverSchema{Digest: own.Digest, Spec: own.Raw})
	}
	return req
}

func TestDriverSchemas_Requested(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Kinds = drivers.Table() })
	n, own := servertest.Join(t, s.RPCAddr()), ofImage(t)
	builtin, err := schema.Of(drivers.Table()["exec2"].TaskSpec)
	if err != nil {
		t.Fatal(err)
	}
	reports(n.Node, "exec2", builtin.Digest)
	reports(n.Node, "image", own.Digest)
	reports(n.Node, "image-2", own.Digest)
	var out message.NodeUpdateResponse
	n.Must("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, &out)
	if want := []string{own.Digest}; !slices.Equal(out.WantedSchemas, want) {
		t.Fatalf("the servers request %q, want %q", out.WantedSchemas, want)
	}
	if got := n.Heartbeat(n.JWT, false).WantedSchemas; len(got) != 1 {
		t.Errorf("a heartbeat before the schema arrived requests %q, want it again", got)
	}
	n.Must("Node.UpsertDriverSchemas", schemaRequest(n, own), nil)
	n.Must("Node.UpsertDriverSchemas", schemaRequest(n, own), nil)
	if got := n.Heartbeat(n.JWT, false).WantedSchemas; len(got) != 0 {
		t.Errorf("a heartbeat after the schema arrived requests %q", got)
	}
}

func TestDriverSchemas_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n, other, own := servertest.Join(t, s.RPCAddr()), servertest.Join(t, s.RPCAddr()), ofImage(t)
	large := schema.Schema{Raw: make([]byte, schema.MaxSize+1)}
	invalid := schema.Schema{Raw: []byte{0xff}, Digest: schema.Digest([]byte{0xff})}
	forged := schema.Schema{Raw: own.Raw, Digest: strings.Repeat("0", 64)}
	reports(n.Node, "image", own.Digest)
	reports(n.Node, "invalid", invalid.Digest)
	mustSendSchemas(n)
	for name, tc := range map[string]struct {
		req  *message.DriverSchemaUpsertRequest
		want string
	}{
		"too large":       {schemaRequest(n, large), "the limit is 262144"},
		"another digest":  {schemaRequest(n, forged), "does not have the digest"},
		"not of the node": {schemaRequest(n, ofImage(t, "x")), "no driver of the node has the schema"},
		"invalid":         {schemaRequest(n, invalid), "driver schema " + invalid.Digest},
		"too many":        {schemaRequest(n, slices.Repeat([]schema.Schema{own}, 33)...), "the limit is 32"},
	} {
		t.Run(name, func(t *testing.T) {
			err := n.Call("Node.UpsertDriverSchemas", tc.req, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Node.UpsertDriverSchemas = %v, want %q", err, tc.want)
			}
		})
	}
	req := schemaRequest(n, own)
	req.AuthToken = other.JWT
	if err := n.Call("Node.UpsertDriverSchemas", req, nil); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("another node sends the schema: %v", err)
	}
}

// While the region has a server of another implementation, no schema is requested or written.
func TestDriverSchemas_OtherBuilds(t *testing.T) {
	here := servertest.StartMember(t, "here", func(c *server.Config) { c.BootstrapExpect, c.DataDir = 1, t.TempDir() })
	servertest.Eventually(t, func() bool { _, id := here.Leader(); return id != "" })
	n, own := servertest.Join(t, here.RPCAddr()), ofImage(t)
	reports(n.Node, "image", own.Digest)
	other, err := gossip.Open(gossip.Config{Name: "upstream.global", Bind: "127.0.0.1:0", Tags: map[string]string{
		"role": "nomad", "region": "global", "dc": "dc1", "build": "2.0.0", "vsn": "1", "raft_vsn": "3", "id": nomad.NewID(),
		"rpc_addr": "127.0.0.1", "port": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Join([]string{here.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return len(here.Members()) == 2 })
	mustSendSchemas(n)
	if got := n.Heartbeat(n.JWT, false).WantedSchemas; len(got) != 0 {
		t.Errorf("the servers request %q", got)
	}
	n.Must("Node.UpsertDriverSchemas", schemaRequest(n, own), nil) // accepted, not written
	if err := other.Leave(); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return slices.Equal(n.Heartbeat(n.JWT, false).WantedSchemas, []string{own.Digest}) })
}

// A schema that a node sent decides about registrations.
func TestDriverSchemas_CheckConfigs(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.Kinds = drivers.Table() })
	n, own := servertest.Join(t, s.RPCAddr()), ofImage(t, "retries")
	reports(n.Node, "image", own.Digest)
	mustSendSchemas(n, own)
	job := servertest.BatchJob("j", 1)
	job.TaskGroups[0].Tasks[0].Driver, job.TaskGroups[0].Tasks[0].Config = "image", map[string]any{"image": "x", "retriez": 3}
	const want = `task "t": driver "image": config: "retriez": No argument or block type is named "retriez". Did you mean "retries"?`
	for method, req := range map[string]any{
		"Job.Register": &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}},
		"Job.Plan":     &message.JobPlanRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}},
	} {
		servertest.WantError(t, s.Call(servertest.Context(t), method, req, nil), 400, want)
	}
	got := servertest.Read[message.JobValidateResponse](t, s, "Job.Validate", &message.JobValidateRequest{Job: job})
	if !strings.Contains(got.Error, want) {
		t.Errorf("Job.Validate = %+v", got)
	}
	job.TaskGroups[0].Tasks[0].Config["retries"] = "${NOMAD_META_retries}"
	delete(job.TaskGroups[0].Tasks[0].Config, "retriez")
	servertest.Register(t, s, job)
}
