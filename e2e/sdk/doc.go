// Package sdk runs the official SDK against our agents: shapes, errors, paths, waits and texts.
package sdk
