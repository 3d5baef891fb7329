package jobs_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// meshFile is a job file with a network of a mode, and a service with text.
func meshFile(mode, text string) string {
	return fmt.Sprintf(`job "j" {
  region = "global"
  group "g" {
    network {
      mode = %q
      port "http" {
        to = 8080
      }
    }
    service {
      name = "api"
      port = "9001"
      %s
    }
    task "t" {
      driver = "docker"
      config {
        image = "app:1"
      }
    }
  }
}`, mode, text)
}

// withConsul returns a view of an empty region whose servers have Consul.
func withConsul(t *testing.T) *admission.View {
	t.Helper()
	s := state.New(nil)
	if _, err := s.UpsertNamespaces(2, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "default"}}}); err != nil {
		t.Fatal(err)
	}
	a := admission.New(admission.Config{Region: "global", Kinds: drivers.Table(), Open: true, OnlyOurs: func(string) error { return nil },
		Consul: consul.NewServices(consul.Config{Setting: consul.Consul})})
	return a.At(s.Snapshot())
}

// admit returns the job of a file as servers with Consul store it.
func admit(t *testing.T, text string) (*nomad.Job, error) {
	t.Helper()
	job := canonical(t, text)
	got, err := withConsul(t).Admit(admission.Caller(&rpc.Access{Rights: acl.Everything, Disabled: true}), job)
	if err != nil {
		return nil, err
	}
	return got.Job(), nil
}

// meshParts describes what the servers add to a job.
func meshParts(job *nomad.Job) (out []string) {
	for _, tg := range job.TaskGroups {
		for _, task := range tg.Tasks {
			if task.Kind != "" {
				out = append(out, fmt.Sprintf("%s %s %s %v", task.Name, task.Kind, task.Driver, task.Config["image"]))
			}
		}
		for _, p := range tg.Networks[0].DynamicPorts {
			if p.Label != "http" {
				out = append(out, fmt.Sprintf("port %s %d", p.Label, p.To))
			}
		}
	}
	return out
}

// TestMeshFiles checks what servers with Consul store for job files with connect blocks, and their errors.
func TestMeshFiles(t *testing.T) {
	const image = "docker ${meta.connect.sidecar_image}"
	for name, c := range map[string]struct {
		mode, text string
		want       []string
		err        string
	}{
		"sidecar": {"bridge", "connect {\nsidecar_service {}\n}", []string{"connect-proxy-api connect-proxy:api " + image, "port connect-proxy-api -1"}, ""},
		"sidecar_task": {"bridge", "connect {\nsidecar_service {}\nsidecar_task {\nname = \"envoy\"\nconfig {\nimage = \"envoy:1\"\n}\n}\n}",
			[]string{"envoy connect-proxy:api docker envoy:1", "port connect-proxy-api -1"}, ""},
		"native": {"bridge", `connect { native = true }`, []string{"t connect-native:api docker app:1"}, ""},
		"ingress": {"host", "connect {\ngateway {\ningress {\nlistener {\nport = 80\nservice {\nname = \"db\"\n}\n}\n}\n}\n}",
			[]string{"connect-ingress-api connect-ingress:api docker ${meta.connect.gateway_image}"}, ""},
		"exposed check": {"bridge", "check {\ntype = \"http\"\npath = \"/h\"\nname = \"c\"\nexpose = true\ninterval = \"9s\"\ntimeout = \"1s\"\n}\nconnect {\nsidecar_service {}\n}",
			[]string{"connect-proxy-api connect-proxy:api " + image, "port connect-proxy-api -1", "port svc_api_ck_cffa83 -1"}, ""},
		"host network": {"host", "connect {\nsidecar_service {}\n}", nil,
			`connect sidecar: invalid network mode for Consul Connect: group "g" uses network mode "host"; must be "bridge" or "cni/*"`},
		"empty":      {"bridge", `connect {}`, nil, "Consul Connect must be exclusively native, make use of a sidecar, or represent a Gateway"},
		"no gateway": {"bridge", "connect {\ngateway {}\n}", nil, "a gateway must have exactly one of the blocks ingress, terminating and mesh"},
		"tcp check": {"bridge", "check {\ntype = \"tcp\"\ninterval = \"9s\"\ntimeout = \"1s\"\n}\nconnect {\nsidecar_service {}\n}", nil,
			"tcp checks are not valid for Connect enabled services"},
		"native catalog": {"bridge", "provider = \"nomad\"\nconnect {\nsidecar_service {}\n}", nil, "connect is a feature of Consul"},
		"cluster":        {"bridge", `cluster = "west"`, nil, "non-default Consul cluster requires Nomad Enterprise"},
	} {
		t.Run(name, func(t *testing.T) {
			job, err := admit(t, meshFile(c.mode, c.text))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("Admit() = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := meshParts(job); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			again, err := withConsul(t).Admit(admission.Caller(&rpc.Access{Rights: acl.Everything, Disabled: true}), codec.Copy(job))
			if err != nil || !reflect.DeepEqual(codec.Copy(again.Job()), codec.Copy(job)) {
				t.Errorf("registered again: %v, %q", err, meshParts(again.Job()))
			}
		})
	}
}

// TestMeshExamples checks that servers with Consul accept the examples of 'job init -connect'.
func TestMeshExamples(t *testing.T) {
	for _, name := range []string{"connect", "connect-short"} {
		text, err := os.ReadFile("../../command/job/" + name + ".nomad.hcl")
		if err != nil {
			t.Fatal(err)
		}
		job := canonical(t, string(text))
		job.Region = "global"
		got, err := withConsul(t).Admit(admission.Caller(&rpc.Access{Rights: acl.Everything, Disabled: true}), job)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if parts := meshParts(got.Job()); len(parts) != 4 {
			t.Errorf("%s: %q, want two proxies with their ports", name, parts)
		}
	}
}
