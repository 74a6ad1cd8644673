"""Asks every GAP milliseconds and prints when, and how long each answer took, in seconds: `client.py SOCKET GAP SECONDS`."""
import socket
import sys
import time

server = socket.socket(socket.AF_UNIX)
while server.connect_ex(sys.argv[1]):
    time.sleep(0.01)
begin = due = time.monotonic()
while due < begin + float(sys.argv[3]):
    time.sleep(max(0, due - time.monotonic()))
    asked = time.monotonic()
    server.send(b"x")
    server.recv(1)
    print(asked, time.monotonic() - asked, flush=True)
    due += float(sys.argv[2]) / 1000
