// Makes a CSI volume, a snapshot of it, and prints the claims of ended allocations.
package main

import (
	"fmt"
	"log"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	plugins, _, err := client.CSIPlugins().List(nil)
	if err != nil || len(plugins) == 0 {
		log.Fatal("no plugin: ", err)
	}
	plugin, _, err := client.CSIPlugins().Info(plugins[0].ID, nil)
	if err != nil {
		log.Fatal(err)
	}
	for node, info := range plugin.Nodes {
		fmt.Println(node, info.Healthy, info.NodeInfo.MaxVolumes)
	}
	volumes := client.CSIVolumes()
	made, _, err := volumes.Create(&api.CSIVolume{ID: "data", Name: "data", PluginID: plugin.ID, RequestedCapacityMin: 1 << 30,
		Secrets:      api.CSISecrets{"password": "x"},
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		RequestedTopologies: &api.CSITopologyRequest{
			Required: []*api.CSITopology{{Segments: map[string]string{"zone": "a"}}}},
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode: api.CSIVolumeAccessModeSingleNodeWriter, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made[0].ExternalID, made[0].Capacity)
	snaps, _, err := volumes.CreateSnapshot(&api.CSISnapshot{SourceVolumeID: "data", Name: "first"}, &api.WriteOptions{Namespace: "default"})
	if err != nil {
		log.Fatal(err)
	}
	listed, _, err := volumes.ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: plugin.ID, QueryOptions: api.QueryOptions{PerPage: 10}})
	if err != nil {
		log.Fatal(err)
	}
	for _, snap := range append(listed.Snapshots, snaps.Snapshots...) {
		fmt.Println(snap.ID, snap.SizeBytes, snap.IsReady)
	}
	if err := volumes.Detach("data", "node", nil); err != nil {
		log.Fatal(err)
	}
	if err := volumes.DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "data", Secrets: api.CSISecrets{"password": "x"}}, nil); err != nil {
		log.Fatal(err)
	}
}
