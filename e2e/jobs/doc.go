// Package jobs tests what a job may contain, on one agent: tasks, drivers, artifacts, volumes, networks, services,
// logs.
package jobs
