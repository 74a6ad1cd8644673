%% SPDX-License-Identifier: GPL-2.0-only
%% GET /w?n=N with a process for each connection: N numbers put in a map, hashed and sorted.
-module(bench_server).
-export([start/1]).

start([Port]) ->
    Options = [binary, {packet, http_bin}, {active, false}, {reuseaddr, true}, {nodelay, true}, {backlog, 256},
               {ip, {127, 0, 0, 1}}],
    {ok, Listen} = gen_tcp:listen(list_to_integer(Port), Options),
    accept(Listen).

accept(Listen) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Worker = spawn(fun() -> receive go -> serve(Socket, 0) end end),
    ok = gen_tcp:controlling_process(Socket, Worker),
    Worker ! go,
    accept(Listen).

serve(Socket, N) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, 'GET', {abs_path, <<"/w?n=", Number/binary>>}, _}} ->
            serve(Socket, binary_to_integer(Number));
        {ok, {http_header, _, _, _, _}} ->
            serve(Socket, N);
        {ok, http_eoh} ->
            Body = work(N),
            Length = integer_to_binary(byte_size(Body)),
            ok = gen_tcp:send(Socket, [<<"HTTP/1.1 200 OK\r\nContent-Length: ">>, Length, <<"\r\n\r\n">>, Body]),
            serve(Socket, 0);
        {error, closed} ->
            ok
    end.

work(N) ->
    Map = lists:foldl(fun(I, M) -> M#{erlang:phash2(I * 7919, 100003) => integer_to_binary(I)} end, #{},
                      lists:seq(1, N)),
    Sorted = lists:sort(maps:to_list(Map)),
    iolist_to_binary([[V, $\n] || {_, V} <- lists:sublist(Sorted, 50)]).
