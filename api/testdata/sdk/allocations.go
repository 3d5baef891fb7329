// Reads logs and files of an allocation, runs a command in it, and restarts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(&api.Config{Address: os.Getenv("NOMAD_ADDR"), SecretID: os.Getenv("NOMAD_TOKEN"), WaitTime: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	stubs, _, err := client.Jobs().Allocations("example", false, &api.QueryOptions{Namespace: "default"})
	if err != nil {
		log.Fatal(err)
	}
	for _, stub := range stubs {
		if stub.ClientStatus != api.AllocClientStatusRunning {
			continue
		}
		alloc, _, err := client.Allocations().Info(stub.ID, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := read(client, alloc); err != nil {
			log.Fatal(err)
		}
		code, err := execute(client, alloc)
		fmt.Println(code, err)
	}
}

func read(client *api.Client, alloc *api.Allocation) error {
	for _, state := range alloc.TaskStates {
		for _, event := range state.Events {
			fmt.Println(time.Unix(0, event.Time), event.Type, event.DisplayMessage, event.Details["exit_code"])
		}
	}
	cancel := make(chan struct{})
	frames, errs := client.AllocFS().Logs(alloc, true, "server", api.FSLogNameStdout, api.OriginEnd, 1000, cancel, nil)
	select {
	case err := <-errs:
		return err
	default:
	}
	reader := api.NewFrameReader(frames, errs, cancel)
	reader.SetUnblockTime(500 * time.Millisecond)
	defer reader.Close()
	if _, err := io.CopyN(os.Stdout, reader, 1000); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	files, _, err := client.AllocFS().List(alloc, "/alloc/logs", nil)
	if err != nil {
		return err
	}
	for _, f := range files {
		fmt.Println(f.Name, f.Size, f.IsDir, f.ModTime, f.FileMode)
	}
	body, err := client.AllocFS().ReadAt(alloc, "/alloc/logs/server.stdout.0", 0, 100, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(os.Stdout, body); err != nil {
		return err
	}
	usage, err := client.Allocations().Stats(alloc, nil)
	if err != nil {
		return err
	}
	fmt.Println(usage.ResourceUsage.CpuStats.TotalTicks, usage.ResourceUsage.MemoryStats.RSS)
	checks, err := client.Allocations().Checks(alloc.ID, nil)
	fmt.Println(len(checks), alloc.GetTaskGroup(), alloc.ServerTerminalStatus(), alloc.DesiredTransition.ShouldMigrate())
	return err
}

func execute(client *api.Client, alloc *api.Allocation) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sizes := make(chan api.TerminalSize, 1)
	sizes <- api.TerminalSize{Height: 40, Width: 100}
	code, err := client.Allocations().Exec(ctx, alloc, "server", true, []string{"/bin/sh"}, os.Stdin, os.Stdout, os.Stderr, sizes, nil)
	if err != nil {
		return code, err
	}
	if _, err := client.Jobs().ActionExec(ctx, alloc, alloc.JobID, "server", false, nil, "flush", os.Stdin, os.Stdout, os.Stderr, sizes,
		nil); err != nil {
		return 1, err
	}
	if err := client.Allocations().Signal(alloc, nil, "server", "SIGHUP"); err != nil {
		return 1, err
	}
	if err := client.Allocations().Restart(alloc, "server", nil); err != nil {
		return 1, err
	}
	stopped, err := client.Allocations().Stop(alloc, &api.QueryOptions{Params: map[string]string{"no_shutdown_delay": "true"}})
	if err != nil {
		return 1, err
	}
	fmt.Println(stopped.EvalID)
	return code, nil
}
