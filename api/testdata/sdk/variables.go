// Writes a variable with check-and-set, and runs a function while it holds a lock.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	if err := store(client); err != nil {
		log.Fatal(err)
	}
	if err := lead(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

func store(client *api.Client) error {
	v := api.NewVariable("nomad/jobs/example")
	v.Items = api.VariableItems{"password": "secret"}
	made, _, err := client.Variables().CheckedCreate(v, nil)
	var conflict api.ErrCASConflict
	if errors.As(err, &conflict) {
		fmt.Println(conflict.CheckIndex, conflict.Conflict.ModifyIndex)
		made, err = conflict.Conflict, nil
	}
	if err != nil {
		return err
	}
	made.Items["user"] = "me"
	if _, _, err := client.Variables().CheckedUpdate(made, nil); err != nil {
		return err
	}
	items, _, err := client.Variables().GetVariableItems(made.Path, nil)
	if err != nil {
		return err
	}
	fmt.Println(items["user"])
	list, _, err := client.Variables().PrefixList("nomad/jobs", nil)
	if err != nil {
		return err
	}
	for _, meta := range list {
		fmt.Println(meta.Path, meta.ModifyTime)
	}
	if _, _, err := client.Variables().Read("none", nil); !errors.Is(err, api.ErrVariablePathNotFound) {
		return err
	}
	_, err = client.Variables().Delete(made.Path, nil)
	return err
}

func lead(ctx context.Context, client *api.Client) error {
	v := api.Variable{Path: "locks/leader", Lock: &api.VariableLock{TTL: "30s", LockDelay: "10s"}}
	lock, err := client.Locks(api.WriteOptions{Namespace: "default"}, v, api.LocksOptionWithMaxRetries(5))
	if err != nil {
		return err
	}
	leaser := client.NewLockLeaser(lock, api.LockLeaserOptionWithWaitPeriod(time.Second), api.LockLeaserOptionWithEarlyReturn(true))
	return leaser.Start(ctx, func(ctx context.Context) error {
		fmt.Println("leading")
		<-ctx.Done()
		return nil
	})
}
