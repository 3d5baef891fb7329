package allocs_test

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// forConsul returns a job whose group and task have a service of Consul.
func forConsul(id string) *nomad.Job {
	j := servertest.BatchJob(id, 1)
	tg := j.TaskGroups[0]
	tg.Consul = &nomad.Consul{Namespace: "ns"}
	tg.Services = []*nomad.Service{{Name: "web-${NOMAD_ALLOC_INDEX}", Provider: "consul"}}
	tg.Tasks[0].Services = []*nomad.Service{{Name: "db", Provider: "consul"}}
	return j
}

// TestSigning_Consul checks the claims of the identities with which services and tasks log in to Consul, and that a node gets
// only those of services of its own allocations.
func TestSigning_Consul(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) {
		login := &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
		c.Consul = consul.Config{Setting: consul.Consul, ServiceIdentity: login, TaskIdentity: login}
	})
	n := servertest.NewFakeNode(t, s)
	n.Node.Attributes["consul.version"] = "1.20.0"
	if err := n.Register(""); err != nil {
		t.Fatal(err)
	}
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
	servertest.Register(t, s, forConsul("j"))
	alloc := n.Allocs(1)[0]
	const service, task = message.WorkloadTypeService, message.WorkloadTypeTask
	ask := func(h message.WIHandle) *message.AllocIdentitiesRequest {
		return &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT, AllowStale: true},
			Identities: []*message.WorkloadIdentityRequest{{AllocID: alloc.ID, WIHandle: h}}}
	}
	group := message.WIHandle{IdentityName: "consul-service_web-${NOMAD_ALLOC_INDEX}-", WorkloadIdentifier: "web-${NOMAD_ALLOC_INDEX}",
		WorkloadType: service, InterpolatedWorkloadIdentifier: "web-0"}
	for name, c := range map[string]struct {
		handle message.WIHandle
		want   map[string]any
	}{
		"service of the group": {group, map[string]any{"nomad_service": "web-0", "nomad_task": nil, "consul_namespace": "ns", "aud": "consul.io",
			"sub": "global:default:j:g:web-${NOMAD_ALLOC_INDEX}:consul-service_web-${NOMAD_ALLOC_INDEX}-"}},
		"service of the task": {message.WIHandle{IdentityName: "consul-service_t-db-", WorkloadIdentifier: "db", WorkloadType: service},
			map[string]any{"nomad_service": "db", "nomad_task": nil, "consul_namespace": "ns", "sub": "global:default:j:g:db:consul-service_t-db-"}},
		"task": {message.WIHandle{IdentityName: "consul_default", WorkloadIdentifier: "t", WorkloadType: task},
			map[string]any{"nomad_service": nil, "nomad_task": "t", "consul_namespace": "ns", "sub": "global:default:j:g:t:consul_default"}},
		"another identity": {message.WIHandle{IdentityName: "aws", WorkloadIdentifier: "t", WorkloadType: task},
			map[string]any{"nomad_task": "t", "consul_namespace": nil}},
	} {
		var out message.AllocIdentitiesResponse
		n.Must("Alloc.SignIdentities", ask(c.handle), &out)
		if len(out.SignedIdentities) != 1 {
			t.Errorf("%s: rejected: %+v", name, out.Rejections)
			continue
		}
		token := out.SignedIdentities[0].JWT
		claims := servertest.Claims(t, token)
		for key, want := range c.want {
			if claims[key] != want {
				t.Errorf("%s: claim %s = %v, want %v", name, key, claims[key], want)
			}
		}
		header, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
		if rsa := strings.Contains(string(header), "RS256"); err != nil || rsa != strings.HasPrefix(c.handle.IdentityName, "consul") {
			t.Errorf("%s: header %s, %v", name, header, err)
		}
	}

	var out message.AllocIdentitiesResponse
	for _, name := range []string{"db", "web", "web-a/../b", "web-a\nb", "web-a b", "web-${value.x}", "web-" + strings.Repeat("a", 256)} {
		other := group
		other.InterpolatedWorkloadIdentifier = name
		out = message.AllocIdentitiesResponse{}
		n.Must("Alloc.SignIdentities", ask(other), &out)
		if len(out.SignedIdentities) != 0 || len(out.Rejections) != 1 {
			t.Errorf("%.64q, a name that is not one of the service: signed %d", name, len(out.SignedIdentities))
		}
	}
	stranger := servertest.Join(t, s.RPCAddr())
	for _, token := range []string{stranger.JWT, stranger.Node.SecretID, alloc.SignedIdentities["t"], ""} {
		req := ask(group)
		req.AuthToken = token
		out = message.AllocIdentitiesResponse{}
		if err := stranger.Call("Alloc.SignIdentities", req, &out); err == nil || len(out.SignedIdentities) != 0 {
			t.Errorf("another node got %d identities, %v", len(out.SignedIdentities), err)
		}
	}
}

// TestSigning_Names checks that a node gets no token for a service of another name, whatever references the name of its own
// service has. It sends what its client computes, and names of its choice.
func TestSigning_Names(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) {
		login := &nomad.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
		c.Consul = consul.Config{Setting: consul.Consul, ServiceIdentity: login}
	})
	n := servertest.NewFakeNode(t, s)
	n.Node.Attributes["consul.version"], n.Node.Meta = "1.20.0", map[string]string{"rack": "r9"}
	if err := n.Register(""); err != nil {
		t.Fatal(err)
	}
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
	job := servertest.BatchJob("j", 1)
	tg := job.TaskGroups[0]
	tg.Tasks[0].Env = map[string]string{"COLOR": "red"}
	for _, name := range []string{"web", "${NOMAD_JOB_NAME}", "${NOMAD_JOB_NAME}-${NOMAD_GROUP_NAME}", "${meta.rack}", "x-${node.datacenter}"} {
		tg.Services = append(tg.Services, &nomad.Service{Name: name, Provider: "consul"})
	}
	for _, name := range []string{"${NOMAD_TASK_NAME}-db", "${COLOR}", "${node.unique.id}"} {
		tg.Tasks[0].Services = append(tg.Tasks[0].Services, &nomad.Service{Name: name, Provider: "consul"})
	}
	servertest.Register(t, s, job)
	alloc := n.Allocs(1)[0]
	n.Node.Meta["rack"] = "db" // not registered
	var own []identity.Service
	for _, service := range identity.Services(alloc, n.Node, "global") {
		own = append(own, service)
		for _, name := range []string{"db", "red-db", "web-1", "j-other", "r9-"} {
			stolen := service
			stolen.Interpolated = name
			own = append(own, stolen)
		}
	}
	signed := map[string]string{}
	for _, service := range own {
		var out message.AllocIdentitiesResponse
		n.Must("Alloc.SignIdentities", &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT},
			Identities: []*message.WorkloadIdentityRequest{{AllocID: alloc.ID, WIHandle: service.Handle()}}}, &out)
		for _, id := range out.SignedIdentities {
			signed[id.WorkloadIdentifier] += id.InterpolatedWorkloadIdentifier + " "
		}
	}
	want := map[string]string{"web": "web ", "${NOMAD_JOB_NAME}": "j ", "${NOMAD_JOB_NAME}-${NOMAD_GROUP_NAME}": "j-g ",
		"x-${node.datacenter}": "x-dc1 ", "${NOMAD_TASK_NAME}-db": "t-db ", "${COLOR}": "red ", "${node.unique.id}": n.Node.ID + " "}
	if !maps.Equal(signed, want) {
		t.Errorf("signed names %v, want %v", signed, want)
	}
}
