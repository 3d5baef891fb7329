// Package fetch is the interface between the client (client/artifact) and the program that downloads the
// artifacts of a task (internal/fetch/cmd). The program runs confined as the task, so the client trusts
// nothing that it sends. The library that does the work, go-getter, is only part of the program.
//
// The program reads one Request, as JSON, from descriptor 0 until end of file. It writes one Message per
// line, as JSON, to descriptor 1. Both are limited in size.
//
//	client ── Request ──▶ program
//	       ◀─ progress ─┤ (at most one per second)
//	       ◀─ failed ───┤ or
//	       ◀─ done ─────┘
//
// A Request has one of two steps. Its files are below the working directory of the program:
//
//	download   source ──network──▶ archive    a file that must be unpacked
//	                           └─▶ out        anything else: a file or a directory
//	           signature ────────▶ signature  if requested
//	unpack     archive ──────────▶ out
//
// The client runs a new process for the second step, without network. The archive is then a file that
// the program can only read, and that the client has checked.
//
// The package also holds the syntax of sources and checksums, which servers and clients validate. It has
// no goroutines.
package fetch
