package bundle

import (
	"context"
	"fmt"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// maxStorage bounds the CSI volumes, and the plugins, that each capture of the state has a file of.
const maxStorage = 1000

// storage captures each CSI plugin and volume: a volume has the claims that are being released. A failed list is in the
// index by the file of the list.
func (p *capture) storage(ctx context.Context, n int) {
	q := p.query(ctx)
	plugins, _, err := p.client.CSIPlugins().List(q)
	if err == nil {
		for _, plugin := range plugins[:min(len(plugins), maxStorage)] {
			p.read(ctx, fmt.Sprintf("nomad/%04d/csi-plugin-id-%s.json", n, url.PathEscape(plugin.ID)),
				"/v1/plugin/csi/"+url.PathEscape(plugin.ID)+"?namespace=*")
		}
	}
	q.Namespace = "*"
	volumes, _, err := p.client.CSIVolumes().List(q)
	if err != nil {
		return
	}
	for _, v := range volumes[:min(len(volumes), maxStorage)] {
		p.read(ctx, fmt.Sprintf("nomad/%04d/csi-volume-id-%s.json", n, volumeFile(v)),
			"/v1/volume/csi/"+url.PathEscape(v.ID)+"?namespace="+url.QueryEscape(v.Namespace))
	}
}

// volumeFile returns the part of a file name for a volume. Volumes of two namespaces can have the same ID.
func volumeFile(v *api.CSIVolumeListStub) string {
	if v.Namespace == "default" {
		return url.PathEscape(v.ID)
	}
	return url.PathEscape(v.ID + "@" + v.Namespace)
}
