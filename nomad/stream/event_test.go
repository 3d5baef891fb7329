package stream_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// eventsOf returns the events of one entry.
func eventsOf(t *testing.T, command message.CommandType, rows ...table.Write) []*stream.Event {
	t.Helper()
	b := stream.New(1)
	b.Applied(7, command, rows)
	s := b.Subscribe(0)
	defer s.Close()
	batch, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return batch.Events()
}

// The fields of each topic are those of Nomad 2.0.
func TestEventsOfRows(t *testing.T) {
	for name, c := range map[string]struct {
		command message.CommandType
		row     table.Write
		want    string
	}{
		"job": {message.JobRegisterRequestType, table.Write{Row: &nomad.Job{ID: "web", Namespace: "prod"}},
			`{"Topic":"Job","Type":"JobRegistered","Key":"web","Namespace":"prod","FilterKeys":null,"Payload":["Job"]}`},
		"purged job": {message.JobDeregisterRequestType, table.Write{Row: &nomad.Job{ID: "web", Namespace: "prod"}, Deleted: true},
			`{"Topic":"Job","Type":"JobDeregistered","Key":"web","Namespace":"prod","FilterKeys":null,"Payload":["Deleted","Job"]}`},
		"evaluation": {message.EvalUpdateRequestType,
			table.Write{Row: &nomad.Evaluation{ID: "e", Namespace: "prod", JobID: "web", DeploymentID: "d"}},
			`{"Topic":"Evaluation","Type":"EvaluationUpdated","Key":"e","Namespace":"prod","FilterKeys":["web","d"],"Payload":["Evaluation"]}`},
		"allocation": {message.AllocClientUpdateRequestType, table.Write{Row: &nomad.Allocation{ID: "a", Namespace: "prod", JobID: "web"}},
			`{"Topic":"Allocation","Type":"AllocationUpdated","Key":"a","Namespace":"prod","FilterKeys":["web"],"Payload":["Allocation"]}`},
		"deployment": {message.ApplyPlanResultsRequestType, table.Write{Row: &nomad.Deployment{ID: "d", Namespace: "prod", JobID: "web"}},
			`{"Topic":"Deployment","Type":"PlanResult","Key":"d","Namespace":"prod","FilterKeys":["web"],"Payload":["Deployment"]}`},
		"node": {message.NodeUpdateStatusRequestType, table.Write{Row: &nomad.Node{ID: "n"}},
			`{"Topic":"Node","Type":"NodeStreamEvent","Key":"n","Namespace":"","FilterKeys":null,"Payload":["Node"]}`},
		"node pool": {message.NodePoolDeleteRequestType, table.Write{Row: &nomad.NodePool{Name: "gpu"}, Deleted: true},
			`{"Topic":"NodePool","Type":"NodePoolDeleted","Key":"gpu","Namespace":"","FilterKeys":null,"Payload":["NodePool"]}`},
		"service": {message.ServiceRegistrationUpsertRequestType,
			table.Write{Row: &catalog.Registration{ID: "s", ServiceName: "db", Namespace: "prod", JobID: "web"}},
			`{"Topic":"Service","Type":"ServiceRegistration","Key":"s","Namespace":"prod","FilterKeys":["web","db"],"Payload":["Service"]}`},
		"removed service": {message.ServiceRegistrationDeleteByIDRequestType,
			table.Write{Row: &catalog.Registration{ID: "s", ServiceName: "db", Namespace: "prod", JobID: "web"}, Deleted: true},
			`{"Topic":"Service","Type":"ServiceDeregistration","Key":"s","Namespace":"prod","FilterKeys":["web","db"],"Payload":["Service"]}`},
		"CSI volume": {message.CSIVolumeRegisterRequestType, table.Write{Row: &csi.Volume{ID: "v", Name: "db", PluginID: "ebs", Namespace: "prod"}},
			`{"Topic":"CSIVolume","Type":"CSIVolumeRegistered","Key":"v","Namespace":"prod","FilterKeys":["v","db","ebs"],"Payload":["Volume"]}`},
		"claim": {message.CSIVolumeClaimRequestType, table.Write{Row: &csi.Volume{ID: "v", Name: "db", PluginID: "ebs", Namespace: "prod"}},
			`{"Topic":"CSIVolume","Type":"CSIVolumeClaim","Key":"v","Namespace":"prod","FilterKeys":["v","db","ebs"],"Payload":["Volume"]}`},
		"claims": {message.CSIVolumeClaimBatchRequestType, table.Write{Row: &csi.Volume{ID: "v", Name: "db", PluginID: "ebs", Namespace: "prod"}},
			`{"Topic":"CSIVolume","Type":"CSIVolumeClaim","Key":"v","Namespace":"prod","FilterKeys":["v","db","ebs"],"Payload":["Volume"]}`},
		"removed CSI volume": {message.CSIVolumeDeregisterRequestType, table.Write{Row: &csi.Volume{ID: "v", Name: "db", PluginID: "ebs", Namespace: "prod"}, Deleted: true},
			`{"Topic":"CSIVolume","Type":"CSIVolumeDeregistered","Key":"v","Namespace":"prod","FilterKeys":["v","db","ebs"],"Payload":["Deleted","Volume"]}`},
		"plugin of a node": {message.NodeRegisterRequestType, table.Write{Row: &csi.Plugin{ID: "ebs"}},
			`{"Topic":"CSIPlugin","Type":"NodeRegistration","Key":"ebs","Namespace":"","FilterKeys":["ebs"],"Payload":["Plugin"]}`},
		"plugin of a job": {message.JobRegisterRequestType, table.Write{Row: &csi.Plugin{ID: "ebs"}},
			`{"Topic":"CSIPlugin","Type":"JobRegistered","Key":"ebs","Namespace":"","FilterKeys":["ebs"],"Payload":["Plugin"]}`},
		"plugin of allocations": {message.AllocClientUpdateRequestType, table.Write{Row: &csi.Plugin{ID: "ebs"}, Deleted: true},
			`{"Topic":"CSIPlugin","Type":"AllocationUpdated","Key":"ebs","Namespace":"","FilterKeys":["ebs"],"Payload":["Deleted","Plugin"]}`},
		"deleted plugin": {message.CSIPluginDeleteRequestType, table.Write{Row: &csi.Plugin{ID: "ebs"}, Deleted: true},
			`{"Topic":"CSIPlugin","Type":"CSIPluginDeleted","Key":"ebs","Namespace":"","FilterKeys":["ebs"],"Payload":["Deleted","Plugin"]}`},
		"variable": {message.VarApplyStateRequestType,
			table.Write{Row: &variable.Encrypted{Metadata: variable.Metadata{Namespace: "prod", Path: "a/b"}}, Deleted: true},
			`{"Topic":"Variable","Type":"VariableUpdated","Key":"a/b","Namespace":"prod","FilterKeys":null,"Payload":["Deleted","Metadata"]}`},
		"token": {message.ACLTokenBootstrapRequestType, table.Write{Row: &rbac.Token{AccessorID: "t"}},
			`{"Topic":"ACLToken","Type":"ACLTokenUpserted","Key":"t","Namespace":"","FilterKeys":null,"Payload":["ACLToken"]}`},
		"policy": {message.ACLPolicyDeleteRequestType, table.Write{Row: &rbac.Policy{Name: "p"}},
			`{"Topic":"ACLPolicy","Type":"ACLPolicyDeleted","Key":"p","Namespace":"","FilterKeys":null,"Payload":["ACLPolicy"]}`},
		"role": {message.ACLRolesUpsertRequestType, table.Write{Row: &rbac.Role{ID: "r", Name: "ops"}},
			`{"Topic":"ACLRole","Type":"ACLRoleUpserted","Key":"r","Namespace":"","FilterKeys":["ops"],"Payload":["ACLRole"]}`},
		"auth method": {message.ACLAuthMethodsUpsertRequestType, table.Write{Row: &rbac.AuthMethod{Name: "sso"}},
			`{"Topic":"ACLAuthMethod","Type":"ACLAuthMethodUpserted","Key":"sso","Namespace":"","FilterKeys":null,"Payload":["AuthMethod"]}`},
		"binding rule": {message.ACLBindingRulesDeleteRequestType, table.Write{Row: &rbac.BindingRule{ID: "b", AuthMethod: "sso"}},
			`{"Topic":"ACLBindingRule","Type":"ACLBindingRuleDeleted","Key":"b","Namespace":"","FilterKeys":["sso"],"Payload":["ACLBindingRule"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			events := eventsOf(t, c.command, c.row)
			if len(events) != 1 {
				t.Fatalf("%d events, want one", len(events))
			}
			text, err := events[0].JSON()
			if err != nil {
				t.Fatal(err)
			}
			type fields struct {
				Topic, Type, Key, Namespace string
				FilterKeys, Payload         []string
			}
			var got struct {
				fields
				Index   int
				Payload map[string]any
			}
			var want fields
			if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(c.want), &want)); err != nil {
				t.Fatal(err)
			}
			for k := range got.Payload {
				got.fields.Payload = append(got.fields.Payload, k)
			}
			slices.Sort(got.fields.Payload)
			if !reflect.DeepEqual(got.fields, want) || got.Index != 7 {
				t.Errorf("event %+v of entry %d, want %+v of entry 7", got.fields, got.Index, want)
			}
		})
	}
}

// A node has the field Drain, which is true exactly while it has a drain strategy.
func TestDrainOfNodes(t *testing.T) {
	for want, strategy := range map[bool]*nomad.DrainStrategy{true: {}, false: nil} {
		events := eventsOf(t, message.NodeUpdateDrainRequestType, table.Write{Row: &nomad.Node{
			ID:            "n",
			SecretID:      "s3cret",
			DrainStrategy: strategy,
		}})
		text, err := events[0].JSON()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Payload struct {
				Node struct {
					ID            string
					Drain         bool
					DrainStrategy *struct{}
				}
			}
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		n := got.Payload.Node
		if n.ID != "n" || n.Drain != want || (n.DrainStrategy != nil) != want || strings.Contains(string(text), "s3cret") {
			t.Errorf("strategy %v: event %s", strategy, text)
		}
	}
}

// An object that an entry writes twice has one event, with the last version.
func TestLastWriteCounts(t *testing.T) {
	events := eventsOf(t, message.JobRegisterRequestType,
		table.Write{Row: &nomad.Job{ID: "web", Namespace: "default", Status: "pending"}},
		table.Write{Row: &nomad.Job{ID: "web", Namespace: "other"}},
		table.Write{Row: &nomad.Evaluation{ID: "e"}},
		table.Write{Row: &nomad.Job{ID: "web", Namespace: "default", Status: "running"}})
	var got []string
	for _, e := range events {
		got = append(got, string(e.Topic)+" "+e.Namespace)
	}
	if want := []string{"Job other", "Evaluation ", "Job default"}; !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
	text, err := events[2].JSON()
	var job struct{ Payload struct{ Job nomad.Job } }
	if err := errors.Join(err, json.Unmarshal(text, &job)); err != nil || job.Payload.Job.Status != "running" {
		t.Errorf("the job is %q (%v), want the last version", job.Payload.Job.Status, err)
	}
}

// TestFilter_Keys checks that a reader cannot request more keys than an event is cheaply compared with.
func TestFilter_Keys(t *testing.T) {
	keys := make([]string, 600)
	if _, err := stream.NewFilter(map[message.Topic][]string{message.TopicJob: keys}, "default"); err != nil {
		t.Errorf("NewFilter() of 600 keys = %v, want no error", err)
	}
	_, err := stream.NewFilter(map[message.Topic][]string{message.TopicJob: keys, message.TopicNode: keys}, "default")
	var coded *apierror.Coded
	if !errors.As(err, &coded) || coded.Code != 400 {
		t.Errorf("NewFilter() of 1200 keys = %v, want 400", err)
	}
}

func TestFilter(t *testing.T) {
	event := eventsOf(t, message.EvalUpdateRequestType, table.Write{Row: &nomad.Evaluation{ID: "e", Namespace: "prod", JobID: "web"}})[0]
	node := eventsOf(t, message.NodeRegisterRequestType, table.Write{Row: &nomad.Node{ID: "n"}})[0]
	for name, c := range map[string]struct {
		topics    map[message.Topic][]string
		namespace string
		event     *stream.Event
		want      bool
	}{
		"everything":              {nil, "prod", event, true},
		"other namespace":         {nil, "default", event, false},
		"all namespaces":          {nil, "*", event, true},
		"its topic":               {map[message.Topic][]string{"Evaluation": {"*"}}, "prod", event, true},
		"its topic, no keys":      {map[message.Topic][]string{"Evaluation": nil}, "prod", event, true},
		"another topic":           {map[message.Topic][]string{"Job": {"*"}}, "prod", event, false},
		"its key":                 {map[message.Topic][]string{"Evaluation": {"x", "e"}}, "prod", event, true},
		"its job":                 {map[message.Topic][]string{"Evaluation": {"web"}}, "prod", event, true},
		"another job":             {map[message.Topic][]string{"Evaluation": {"we"}}, "prod", event, false},
		"its job in all topics":   {map[message.Topic][]string{"*": {"web"}}, "prod", event, true},
		"another in all topics":   {map[message.Topic][]string{"*": {"db"}}, "prod", event, false},
		"nodes have no namespace": {map[message.Topic][]string{"Node": {"*"}}, "prod", node, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := stream.NewFilter(c.topics, c.namespace)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Matches(c.event); got != c.want {
				t.Errorf("Matches() = %v, want %v", got, c.want)
			}
		})
	}
}

func TestUnknownTopics(t *testing.T) {
	for topic, want := range map[message.Topic]int{"job": 400, "": 400, "Operator": 501} {
		_, err := stream.NewFilter(map[message.Topic][]string{topic: {"*"}}, "default")
		var coded *apierror.Coded
		if !errors.As(err, &coded) || coded.Code != want {
			t.Errorf("NewFilter(%q) = %v, want the code %d", topic, err, want)
		}
	}
}
