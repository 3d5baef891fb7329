package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Mounts of a job need additional rights.
func TestRegister_RightsOfMounts(t *testing.T) {
	g := servertest.StartACL(t, nil)
	mounting := func(v *nomad.VolumeRequest) *message.JobRegisterRequest {
		j := servertest.BatchJob("m", 1)
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": v}
		return &message.JobRegisterRequest{Job: j}
	}
	write := `namespace "default" { policy = "write" }` + "\n"
	reads, writes := g.TokenWith(write+`host_volume "data" { policy = "read" }`), g.TokenWith(write+`host_volume "data" { policy = "write" }`)
	plugins := g.TokenWith(write + `plugin { policy = "read" }`)
	without := g.TokenWith(`namespace "default" { capabilities = ["submit-job"] }`)
	for _, c := range []struct {
		secret string
		v      nomad.VolumeRequest
		want   string
	}{
		{reads, nomad.VolumeRequest{Type: "host", Source: "data", ReadOnly: true}, ""},
		{reads, nomad.VolumeRequest{Type: "host", Source: "data"}, `mount-readwrite of host_volume "data"`},
		{writes, nomad.VolumeRequest{Type: "host", Source: "data"}, ""},
		{writes, nomad.VolumeRequest{Type: "host", Source: "other", ReadOnly: true}, `host_volume "other"`},
		{writes, nomad.VolumeRequest{Type: "csi", Source: "c"}, "plugin"},
		{plugins, nomad.VolumeRequest{Type: "csi", Source: "c"}, ""},
		{without, nomad.VolumeRequest{Type: "csi", Source: "c"}, "csi-mount-volume"},
	} {
		err := g.Call(c.secret, "Job.Register", mounting(&c.v), nil)
		denied := errors.Is(err, apierror.ErrPermissionDenied)
		if denied != (c.want != "") || denied && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.v, err, c.want)
		}
	}
	override := &message.JobRegisterRequest{Job: servertest.BatchJob("m", 1)}
	override.PolicyOverride = true
	if err := g.Call(writes, "Job.Register", override, nil); !errors.Is(err, apierror.ErrPermissionDenied) ||
		!strings.Contains(err.Error(), "sentinel-override") {
		t.Errorf("an override: %v", err)
	}
}

// While job registration is disabled, only management tokens can register jobs.
func TestRegister_ClosedExceptManagement(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.Must("Operator.SchedulerSetConfiguration",
		&message.SchedulerSetConfigRequest{Config: nomad.SchedulerConfiguration{RejectJobRegistration: true}}, nil)
	writer := g.TokenWith(`namespace "default" { policy = "write" }`)
	if err := g.Call(writer, "Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("j", 1)}, nil); !errors.Is(err,
		apierror.ErrRegistrationClosed) {
		t.Errorf("a writer: %v", err)
	}
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("j", 1)}, nil)
}
