package monitor

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		ev   api.Evaluation
		want string
	}{
		{api.Evaluation{}, "additional capacity"},
		{api.Evaluation{MissingNonNodeResources: []string{"unknown"}}, "additional capacity"},
		{api.Evaluation{QuotaLimitReached: "q", MissingNonNodeResources: []string{"csi-volume:default:data"}}, `room in the quota "q"`},
		{api.Evaluation{MissingNonNodeResources: []string{"csi-volume:default:data"}}, `CSI volume "data"`},
		{api.Evaluation{MissingNonNodeResources: []string{"csi-volume:default:a", "x:y:z", "csi-volume:default:b:c"}}, `CSI volumes "a", "b:c"`},
	} {
		if got := Waits(&c.ev); got != c.want {
			t.Errorf("Waits(%v) = %q, want %q", c.ev.MissingNonNodeResources, got, c.want)
		}
	}
}
