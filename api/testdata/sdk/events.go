// Lists services and follows events.
package main

import (
	"context"
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
	defer client.Close()
	lists, _, err := client.Services().List(&api.QueryOptions{Namespace: api.AllNamespacesNamespace})
	if err != nil {
		log.Fatal(err)
	}
	for _, list := range lists {
		for _, service := range list.Services {
			registrations, _, err := client.Services().Get(service.ServiceName,
				(&api.QueryOptions{Namespace: list.Namespace}).WithContext(context.Background()))
			if err != nil {
				log.Fatal(err)
			}
			for _, r := range registrations {
				fmt.Println(r.ServiceName, r.Address, r.Port, r.Tags, r.AllocID)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	topics := map[api.Topic][]string{api.TopicJob: {"*"}, api.TopicAllocation: {"example"}, api.TopicNode: {"*"}, api.TopicService: {"*"}}
	events, err := client.EventStream().Stream(ctx, topics, 0, &api.QueryOptions{Namespace: "*"})
	if err != nil {
		log.Fatal(err)
	}
	for batch := range events {
		if batch.Err != nil {
			log.Fatal(batch.Err)
		}
		if batch.IsHeartbeat() {
			continue
		}
		for _, e := range batch.Events {
			show(&e)
		}
	}
}

func show(e *api.Event) {
	switch e.Topic {
	case api.TopicJob:
		job, err := e.Job()
		fmt.Println(e.Type, job, err)
	case api.TopicAllocation:
		alloc, err := e.Allocation()
		fmt.Println(e.Type, alloc.ClientStatus, err)
	case api.TopicNode:
		node, err := e.Node()
		fmt.Println(e.Type, node.Name, err)
	case api.TopicService:
		service, err := e.Service()
		fmt.Println(e.Topic.String(), e.Key, service.ServiceName, err)
	default:
		fmt.Println(e.Topic, e.Index, e.FilterKeys)
	}
}
