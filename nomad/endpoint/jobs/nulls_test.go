package jobs_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// eachNull calls try with null at each place of a value that can have one, and returns their number. object reports whether
// the null replaces an object in a list or a map.
func eachNull(v reflect.Value, place string, object bool, try func(place string, object bool)) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		if v.CanSet() {
			old := reflect.ValueOf(v.Interface())
			v.SetZero()
			try(place, object && v.Kind() == reflect.Pointer)
			v.Set(old)
			n++
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return n + eachNull(v.Elem(), place, false, try)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				n += eachNull(v.Field(i), place+"."+f.Name, false, try)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += eachNull(v.Index(i), fmt.Sprintf("%s[%d]", place, i), true, try)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			old := v.MapIndex(key)
			switch old.Kind() {
			case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
				v.SetMapIndex(key, reflect.Zero(old.Type()))
				try(fmt.Sprintf("%s[%v]", place, key), old.Kind() == reflect.Pointer)
				v.SetMapIndex(key, old)
				n++
			}
		}
	}
	return n
}

// TestNulls_RPC puts null at every place of a job with vault and secret blocks, in raw calls. A null instead of an object in a list
// is refused, and no null is an error of the server.
func TestNulls_RPC(t *testing.T) {
	s, _ := servertest.Start(t, vaultServers(t.TempDir()))
	n := servertest.Join(t, s.RPCAddr())
	constraint := []*nomad.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}
	affinity := []*nomad.Affinity{{LTarget: "${node.datacenter}", RTarget: "dc1", Operand: "=", Weight: 50}}
	job := vaultJob("nulls", 1)
	job.Constraints, job.Affinities = constraint, affinity
	job.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: 50, SpreadTarget: []*nomad.SpreadTarget{{Value: "dc1", Percent: 50}}}}
	tg := job.TaskGroups[0]
	tg.Constraints, tg.Affinities, tg.Consul = constraint, affinity, &nomad.Consul{Cluster: "default"}
	tg.Services = []*nomad.Service{{Name: "web", Provider: "nomad", Tags: []string{"a"}, Meta: map[string]string{"a": "b"}}}
	task := tg.Tasks[0]
	task.Constraints, task.Affinities, task.Meta = constraint, affinity, map[string]string{"a": "b"}
	task.Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"vault.io"}, TTL: time.Hour}}
	task.Secrets = []*nomad.Secret{
		{Name: "a", Provider: "nomad", Path: "a", Config: map[string]any{"namespace": "default"}},
		{Name: "b", Provider: "vault", Path: "a", Config: map[string]any{"engine": "kv_v2"}},
		{Name: "c", Provider: "plugin", Path: "a", Env: map[string]string{"A": "b"}},
	}
	limit, owner := time.Second, 0
	task.Templates = []*nomad.Template{{EmbeddedTmpl: `{{with secret "a"}}{{end}}`, DestPath: "local/a", ChangeMode: "restart", Uid: &owner, Gid: &owner,
		Wait: &nomad.WaitConfig{Min: &limit, Max: &limit}, ChangeScript: &nomad.ChangeScript{Command: "/bin/true", Args: []string{"a"}, Timeout: limit}}}
	write := message.WriteRequest{Region: "global", Namespace: "default", AuthToken: n.JWT}
	calls := map[string]rpc.Request{
		"Job.Validate": &message.JobValidateRequest{Job: job, WriteRequest: write},
		"Job.Plan":     &message.JobPlanRequest{Job: job, Diff: true, WriteRequest: write},
		"Job.Register": &message.JobRegisterRequest{Job: job, WriteRequest: write},
		"Job.Explain":  &message.JobExplainRequest{Job: job, QueryOptions: message.QueryOptions{Region: "global", Namespace: "default", AuthToken: n.JWT}},
	}
	call := func(method string) (string, error) {
		var out message.JobValidateResponse
		err := n.Pool.Call(servertest.Context(t), n.Addr, method, calls[method], &out)
		return out.Error, err
	}
	if text, err := call("Job.Validate"); err != nil || text != "" {
		t.Fatalf("the job is not valid: %v %s", err, text)
	}
	for method := range calls {
		t.Run(method, func(t *testing.T) {
			places := eachNull(reflect.ValueOf(job).Elem(), "job", false, func(place string, object bool) {
				_, err := call(method)
				if err != nil && strings.Contains(err.Error(), "internal error in") {
					t.Errorf("null at %s: %v", place, err)
				}
				if object && (err == nil || !strings.Contains(err.Error(), "is null")) {
					t.Errorf("null at %s: %v, want an error", place, err)
				}
			})
			if places < 50 {
				t.Errorf("%d places, want at least 50", places)
			}
		})
	}
}
