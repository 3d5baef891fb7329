package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// publicRPCs answer all callers, even with bad tokens.
var publicRPCs = map[string]bool{
	"Status.Ping": true, "Status.Leader": true, "Status.Peers": true, "Status.RaftStats": true, "Status.HasNodeConn": true,
	"Region.List":        true,
	"Keyring.ListPublic": true, "Keyring.GetConfig": true, "ACL.ListAuthMethods": true, "ACL.ResolveToken": true,
}

// rpcs calls every method as every caller.
func (h *house) rpcs(callers []caller) {
	t := h.t
	t.Helper()
	m := newMatrix(callers)
	table := endpoint.New(endpoint.Config{}).Methods()
	for _, method := range table {
		rule := method.Rule.String()
		if text := method.Check.String(); text != "" {
			rule = text
		}
		m.row(method.Name, rule)
	}
	before := h.things()
	for _, c := range callers {
		if c.name == management {
			h.unchanged(before)
		}
		for _, method := range table {
			answer, err := h.call(t, c, method)
			h.leaks(t, method.Name, c, answer)
			m.set(method.Name, c.name, status(err))
			if want := faults[method.Name]; status(err) == "500" && (want == "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s as %s: %v", method.Name, c.name, err)
			}
		}
	}
	m.sane(t, publicRPCs)
	m.checkNodesPage(t, "client certificate")
	m.compare(t, "rpc")
}

// call calls one method, and returns the answer as text.
func (h *house) call(t *testing.T, c caller, m rpc.Method) (string, error) {
	req := h.request(m)
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().AuthToken, r.Query().Namespace = "global", c.token, c.query
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().AuthToken, r.Write().Namespace = "global", c.token, c.query
	case interface{ Caller() *message.NodeCall }:
		r.Caller().Region, r.Caller().AuthToken = "global", c.token
	}
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	defer cancel()
	if !m.Stream {
		var answer any
		err := c.pool.Call(ctx, h.rpcAddr(), m.Name, req, &answer)
		return fmt.Sprintf("%s %v", answer, err), err
	}
	stream, err := c.pool.Stream(ctx, h.rpcAddr(), m.Name)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	if err := stream.Encode(req); err != nil {
		return "", err
	}
	if _, uploads := req.(*message.SnapshotRestoreRequest); uploads {
		stream.Encode(&message.StreamErrWrapper{Error: &message.RpcError{Message: "EOF"}}) // a rejection closes the stream first
	}
	return "", streamed(stream)
}

// streamed returns the error at the start of a stream.
func streamed(s *rpc.Stream) error {
	var first struct {
		Error    *message.RpcError
		ErrorMsg string
	}
	switch err := s.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case first.Error != nil && first.Error.Code != nil:
		return apierror.Errorf(int(*first.Error.Code), "%s", first.Error.Message)
	case first.Error != nil:
		return apierror.FromText(first.Error.Message)
	case first.ErrorMsg != "":
		return apierror.FromText(first.ErrorMsg)
	}
	return nil
}

// status is the HTTP status of an error.
func status(err error) string {
	var coded *apierror.Coded
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &coded):
		return fmt.Sprint(coded.Code)
	case errors.Is(err, apierror.ErrPermissionDenied):
		return "403"
	case errors.Is(err, apierror.ErrNodeNotFound), errors.Is(err, apierror.ErrNoNodeConn):
		return "404"
	case strings.Contains(err.Error(), "bad certificate"):
		return "tls"
	case strings.Contains(err.Error(), "not available yet"):
		return "501"
	case strings.Contains(err.Error(), "EOF"):
		return "eof"
	}
	return "500"
}

// request fills in a request with the objects of prod. Deletions name objects that do not exist,
// since later callers need the others.
func (h *house) request(m rpc.Method) rpc.Request {
	req := m.NewRequest()
	for name, value := range map[string]any{
		"JobID": "api", "AllocID": h.alloc, "AllocIDs": []string{h.alloc}, "EvalID": h.eval, "DeploymentID": h.deployment, "NodeID": h.victim.id,
		"NodeIDs": []string{nomad.NewID()}, "Path": "nomad/jobs/api", "Task": "t", "Name": prod, "Names": []string{"nothing"},
		"KeyID":      nomad.NewID(),
		"AccessorID": nomad.NewID(), "AccessorIDS": []string{nomad.NewID()}, "AccessorIDs": []string{nomad.NewID()},
		"RoleID": nomad.NewID(), "RoleName": "nothing",
		"MethodName": "nothing", "AuthMethodName": "nothing", "ServiceName": "nothing", "Namespaces": []string{"nothing"}, "Signal": "SIGCONT",
	} {
		field := reflect.ValueOf(req).Elem().FieldByName(name)
		if field.IsValid() && field.Type() == reflect.TypeOf(value) {
			field.Set(reflect.ValueOf(value))
		}
	}
	h.special(m, req)
	return req
}

// special fills in the fields of particular methods.
func (h *house) special(m rpc.Method, req rpc.Request) {
	job := &nomad.Job{
		ID:          "new",
		Name:        "new",
		Namespace:   prod,
		Type:        nomad.JobTypeBatch,
		Datacenters: []string{"*"},
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: 0, Tasks: []*nomad.Task{{Name: "t", Driver: "exec2", Config: map[string]any{"command": "/bin/true"}}}}},
	}
	switch r := req.(type) {
	case *message.JobRegisterRequest:
		r.Job = job
	case *message.JobPlanRequest:
		r.Job = job
	case *message.JobValidateRequest:
		r.Job = job
	case *message.JobDeregisterRequest:
		r.JobID = "new"
	case *message.NodeRegisterRequest:
		r.Node = &nomad.Node{
			ID:         h.victim.id,
			SecretID:   h.victim.secret,
			Name:       "empty",
			Datacenter: "dc1",
			NodePool:   "default",
			Status:     nomad.NodeStatusInit,
		}
	case *message.NodeUpdateStatusRequest:
		r.NodeID, r.Status = h.near.id, nomad.NodeStatusReady
	case *message.DriverSchemaUpsertRequest:
		r.NodeID = h.near.id
	case *message.AllocUpdateRequest:
		r.Alloc = []*nomad.Allocation{{ID: h.alloc, NodeID: h.near.id, ClientStatus: nomad.AllocClientStatusRunning}}
	case *message.EmitNodeEventsRequest:
		r.NodeEvents = map[string][]*nomad.NodeEvent{h.near.id: {{Message: "m", Subsystem: "Driver"}}}
	case *message.AllocIdentitiesRequest:
		r.Identities = []*message.WorkloadIdentityRequest{{AllocID: h.alloc, WIHandle: message.WIHandle{
			IdentityName:       "x",
			WorkloadIdentifier: "t",
		}}}
	case *message.EvalDequeueRequest:
		r.Schedulers, r.Timeout = []string{"none"}, time.Millisecond
	case *message.EventStreamRequest:
		r.Topics = map[message.Topic][]string{message.TopicJob: nil}
	case *message.VariablesApplyRequest:
		r.Op, r.Var = variable.OpSet, &variable.Decrypted{
			Metadata: variable.Metadata{Namespace: prod, Path: "a/new"},
			Items:    variable.Items{"k": "v"},
		}
	case *message.NodePoolUpsertRequest:
		r.NodePools = []*nomad.NodePool{{Name: "new"}}
	case *message.NamespaceUpsertRequest:
		r.Namespaces = []*nomad.Namespace{{Name: "new"}}
	case *message.FuzzySearchRequest:
		r.Text = "api"
	case *message.NodeSpecificRequest:
		if m.Name == "Node.GetClientAllocs" {
			r.NodeID, r.SecretID = h.near.id, h.near.secret
		}
	}
}
