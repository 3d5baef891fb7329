package monitor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Waits describes what a blocked evaluation waits for: its CSI volumes, its quota, or capacity.
func Waits(ev *api.Evaluation) string {
	var volumes []string
	for _, resource := range ev.MissingNonNodeResources {
		name, of := strings.CutPrefix(resource, "csi-volume:")
		if _, id, namespaced := strings.Cut(name, ":"); of && namespaced {
			volumes = append(volumes, strconv.Quote(id))
		}
	}
	switch {
	case ev.QuotaLimitReached != "":
		return fmt.Sprintf("room in the quota %q", ev.QuotaLimitReached)
	case len(volumes) == 1:
		return "CSI volume " + volumes[0]
	case len(volumes) > 1:
		return "CSI volumes " + strings.Join(volumes, ", ")
	}
	return "additional capacity"
}
