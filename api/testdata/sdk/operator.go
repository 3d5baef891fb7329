// Reads the health of servers, saves a snapshot, and changes the scheduler's configuration.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	if err := servers(client); err != nil {
		log.Fatal(err)
	}
	if err := scheduler(client); err != nil {
		log.Fatal(err)
	}
	if err := agent(client.Agent()); err != nil {
		log.Fatal(err)
	}
	snapshot, err := client.Operator().Snapshot(&api.QueryOptions{AllowStale: true})
	if err != nil {
		log.Fatal(err)
	}
	defer snapshot.Close()
	if _, err := io.Copy(os.Stdout, snapshot); err != nil {
		log.Fatal(err)
	}
	if err := client.System().GarbageCollect(); err != nil {
		log.Fatal(err)
	}
}

func servers(client *api.Client) error {
	leader, err := client.Status().Leader()
	if err != nil {
		return err
	}
	regions, err := client.Regions().List()
	if err != nil {
		return err
	}
	health, _, err := client.Operator().AutopilotServerHealth(nil)
	if err != nil {
		return err
	}
	fmt.Println(leader, regions, health.Healthy, health.FailureTolerance)
	raft, err := client.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return err
	}
	for _, s := range raft.Servers {
		fmt.Println(s.ID, s.Address, s.Leader, s.Voter)
	}
	if err := client.Operator().RaftTransferLeadershipByID(raft.Servers[0].ID, nil); err != nil {
		return err
	}
	keys, _, err := client.Keyring().List(nil)
	if err != nil {
		return err
	}
	fmt.Println(keys[0].KeyID, keys[0].State)
	_, _, err = client.Keyring().Rotate(&api.KeyringRotateOptions{Full: true}, nil)
	return err
}

func scheduler(client *api.Client) error {
	resp, _, err := client.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		return err
	}
	conf := resp.SchedulerConfig
	conf.SchedulerAlgorithm = api.SchedulerAlgorithmSpread
	conf.MemoryOversubscriptionEnabled = true
	changed, _, err := client.Operator().SchedulerCASConfiguration(conf, nil)
	if err != nil {
		return err
	}
	fmt.Println(changed.Updated)
	return nil
}

func agent(agent *api.Agent) error {
	members, err := agent.Members()
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		fmt.Println(m.Name, m.Addr, m.Status, m.Tags["region"])
	}
	region, err := agent.Region()
	if err != nil {
		return err
	}
	profile, err := agent.CPUProfile(api.PprofOptions{Seconds: 1}, nil)
	if err != nil {
		return err
	}
	fmt.Println(region, len(profile))
	stop := make(chan struct{})
	frames, errs := agent.Monitor(stop, &api.QueryOptions{Params: map[string]string{"log_level": "debug"}})
	select {
	case frame := <-frames:
		fmt.Println(string(frame.Data), frame.IsHeartbeat())
	case err := <-errs:
		return err
	}
	close(stop)
	return nil
}
