// Drains a node, follows the drain, and makes the node eligible again.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/hashicorp/nomad/api"
)

func main() {
	config := api.DefaultConfig()
	config.TLSConfig = &api.TLSConfig{CACert: "ca.pem", ClientCert: "cert.pem", ClientKey: "key.pem", TLSServerName: "server.global.nomad"}
	client, err := api.NewClient(config)
	if err != nil {
		log.Fatal(err)
	}
	client.SetRegion("global")
	client.SetNamespace("default")
	client.SetSecretID("secret")
	nodes, _, err := client.Nodes().List(&api.QueryOptions{Prefix: "a", Params: map[string]string{"resources": "true"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		if n.Status == api.NodeStatusReady && n.SchedulingEligibility == api.NodeSchedulingEligible {
			if err := drain(context.Background(), client, n.ID); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func drain(ctx context.Context, client *api.Client, id string) error {
	resp, err := client.Nodes().UpdateDrainOpts(id, &api.DrainOptions{
		DrainSpec: &api.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: true}, Meta: map[string]string{"message": "new disk"}}, nil)
	if err != nil {
		return err
	}
	for message := range client.Nodes().MonitorDrain(ctx, id, resp.LastIndex, true) {
		if message.Level == api.MonitorMsgLevelError {
			return fmt.Errorf("drain: %s", message)
		}
		fmt.Println(message)
	}
	if _, err := client.Nodes().UpdateDrain(id, nil, false, nil); err != nil {
		return err
	}
	if _, err := client.Nodes().ToggleEligibility(id, true, nil); err != nil {
		return err
	}
	node, meta, err := client.Nodes().Info(id, nil)
	if err != nil {
		return err
	}
	fmt.Println(meta.LastIndex, node.Attributes["cpu.arch"], node.Drivers["exec2"].Healthy, node.NodeResources.Memory.MemoryMB)
	allocs, _, err := client.Nodes().Allocations(id, nil)
	if err != nil {
		return err
	}
	fmt.Println(len(allocs))
	change := &api.NodeMetaApplyRequest{NodeID: id, Meta: map[string]*string{"rack": nil}}
	if _, err := client.Nodes().Meta().Apply(change, nil); err != nil {
		return err
	}
	direct, err := client.GetNodeClient(id, nil)
	if err != nil {
		return err
	}
	stats, err := direct.Nodes().Stats(id, nil)
	if err != nil {
		return err
	}
	fmt.Println(stats.Uptime, stats.Memory.Available)
	if _, _, err := client.Nodes().Purge(id, nil); err != nil {
		return err
	}
	pool := &api.NodePool{Name: "gpu", Description: "nodes with GPUs"}
	_, err = client.NodePools().Register(pool, nil)
	return err
}
